// Log topics and lines, over spdlog.
#include "core/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep::logs {

namespace {
std::atomic<int> g_rank{0};
thread_local int thread_rank = -1;
std::mutex g_sink_mutex;
std::shared_ptr<const Sink> g_sink;

int rank() { return thread_rank >= 0 ? thread_rank : g_rank.load(); }

spdlog::logger& logger() {
  static auto instance = [] {
    auto made = spdlog::stderr_logger_mt("lockstep");
    made->set_pattern("%v");
    return made;
  }();
  return *instance;
}

// True when a sink has taken the line.
bool to_sink(const std::string& line) {
  std::shared_ptr<const Sink> sink;
  {
    std::lock_guard lock(g_sink_mutex);
    sink = g_sink;
  }
  if (sink) (*sink)(rank(), line);
  return sink != nullptr;
}

std::string prefixed(const std::string& line) {
  return rank() == 0 ? line : str("[rank ", rank(), "] ", line);
}

const std::map<std::string, bool>& switches() {
  static const std::map<std::string, bool> chosen = [] {
    std::map<std::string, bool> out;
    std::vector<std::string> names;
    for (const auto& t : topics()) out[t.name] = false, names.push_back(t.name);
    for (auto word : split(env("LOCKSTEP_LOGS"), ',')) {
      word = trim(word);
      if (word.empty()) continue;
      bool on = word[0] != '-';
      if (word[0] == '-' || word[0] == '+') word = word.substr(1);
      if (word == "all") {
        for (auto& [name, value] : out) value = on;
        continue;
      }
      if (!out.count(word))
        throw UserError(str("LOCKSTEP_LOGS: no topic \"", word, "\"; nearest: ", nearest(word, names),
                            "; topics: ", join(names, ", ")));
      out[word] = on;
    }
    return out;
  }();
  return chosen;
}
}  // namespace

std::span<const Topic> topics() {
  static const Topic table[] = {
      {"trace", "the graph as traced from the step function"},
      {"autodiff", "the joint graph: forward and backward"},
      {"simplify", "the graph after simplification"},
      {"partition", "placements, local shapes and inserted collectives"},
      {"lower", "the graph in primitives"},
      {"remat", "what the backward pass recomputes, and the arena of each choice that was tried"},
      {"fusion", "fused groups, and why a pair was not fused"},
      {"overlap", "buckets, and where each is started and waited for"},
      {"plan", "the plan: kernels, order and arena"},
      {"source", "paths of generated sources"},
      {"cache", "kernel cache hits and misses, seconds of compilation"},
      {"passes", "milliseconds of each pass"},
      {"collectives", "every collective as it is started"},
      {"checkpoint", "what is written and read"},
      {"data", "every data file that is taken or skipped"},
  };
  return table;
}

bool enabled(const char* topic) {
  auto found = switches().find(topic);
  if (found == switches().end()) throw InternalError(str("no log topic ", topic));
  return found->second;
}

void topic(const char* name, const std::string& text) {
  if (!enabled(name)) return;
  for (const auto& line : split(printable(text), '\n'))
    if (!to_sink(str("[", name, "] ", line))) logger().info("[{}] {}", name, line);
}

void info(const std::string& line) {
  if (const std::string shown = printable(line); rank() == 0 && !to_sink(shown)) logger().info(shown);
}
void warn(const std::string& line) {
  if (const std::string shown = prefixed(printable(line)); !to_sink(shown)) logger().warn(shown);
}
void error(const std::string& line) {
  if (const std::string shown = prefixed(printable(line)); !to_sink(shown)) logger().error(shown);
}
void set_rank(int rank) { g_rank = rank; }
void set_thread_rank(int rank) { thread_rank = rank; }
void set_sink(Sink sink) {
  std::lock_guard lock(g_sink_mutex);
  g_sink = sink ? std::make_shared<const Sink>(std::move(sink)) : nullptr;
}

}  // namespace lockstep::logs
