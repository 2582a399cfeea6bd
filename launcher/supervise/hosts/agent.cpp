// Host agents: communicate through files of runs/NAME/logs/nodes: node-K.json (node K's agent is alive),
// over.json (node 0 has ended); and of an attempt: daemon-HOST.json (the command of HOST's daemon).
#include "launcher/supervise/hosts/agent.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/steady_seconds.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/reading/json_text.h"
#include "core/reading/whole_number.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/supervise/launch/command.h"
#include "launcher/supervise/run/attempt.h"
#include "launcher/supervise/run/cause.h"
#include "launcher/supervise/run/leftovers.h"
#include "launcher/supervise/run/rank_process.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
constexpr double kSign = 1, kNap = 0.1;  // seconds between an agent's heartbeats, and between polls

// The user's signal came first: this is not a failure.
class StoppedWaiting : public Error {
 public:
  using Error::Error;
  const char* kind() const override { return "Stopped"; }
  int exit_code() const override { return 128 + first_signal(); }
};

void nap() { std::this_thread::sleep_for(std::chrono::duration<double>(kNap)); }

std::string nodes_folder(const std::string& run_dir) { return run_dir + "/logs/nodes"; }
std::string node_file(const std::string& run_dir, int64_t node) {
  return str(nodes_folder(run_dir), "/node-", node, ".json");
}
std::string over_file(const std::string& run_dir) { return nodes_folder(run_dir) + "/over.json"; }
std::string daemon_file(const std::string& log_dir, const std::string& host) {
  return str(log_dir, "/daemon-", host, ".json");
}

std::string this_host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// nullopt when the file is missing or incomplete, or another user could have written it.
Json read_own(const std::string& path) {
  struct stat about{};
  if (lstat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != geteuid() ||
      (about.st_mode & 022) != 0)
    return {};
  std::string text, why;
  read_plain(path, text, why, kJsonBytes);
  Json out = bounded_json(text);
  return out.is_object() ? out : Json{};
}

void write_own(const std::string& path, const Json& json) {
  if (!replace_private(path, json.dump() + "\n"))
    throw UserError(
        str(not_written_text(path, errno), "; all hosts need the run's folder, and may write it"));
}

// The newest attempt whose mpirun requested this host's daemon; "" without one.
std::string newest_call(const std::string& run_dir, const std::string& host) {
  std::string out;
  int64_t newest = 0;
  std::error_code failed;
  for (fs::directory_iterator at(run_dir + "/logs", failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename();
    const auto attempt = name.starts_with("attempt-") ? whole_number(name.substr(8)) : std::nullopt;
    if (!attempt || *attempt <= newest) continue;
    if (fs::exists(daemon_file(at->path().string(), host))) newest = *attempt, out = at->path().string();
  }
  return out;
}

// mpirun quotes its words for a shell; the quotes are removed here.
std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> out;
  bool inside = false, begun = false;
  for (char c : line) {
    if (c == '"') inside = !inside;
    const bool part = inside || c == '"' || c != ' ';
    if (part && !std::exchange(begun, true)) out.emplace_back();
    if (part && c != '"') out.back() += c;
    begun = part;
  }
  return out;
}

// The command begins with settings of the shell's paths. This runs only Open MPI's daemon, as found in PATH,
// with the given parameters.
std::vector<std::string> daemon_words(const std::string& file) {
  const Json json = read_own(file);
  std::vector<std::string> out;
  for (const auto& each : json.is_object() && json.contains("words") ? json["words"] : Json::array()) {
    const std::string word = each.is_string() ? each.get<std::string>() : "";
    if (fs::path(word).filename() == "orted" && out.empty())
      out.emplace_back("orted");
    else if (!out.empty() && word != "--daemonize" && !word.empty())
      out.push_back(word);
  }
  if (out.size() < 2 || out[0] != "orted")
    throw UserError(str(file,
                        " is no command of Open MPI's daemon that this user has written; look who writes "
                        "this folder"));
  return out;
}

double start_deadline(const LaunchOptions& options) {
  return read_deadlines(options.deadlines.empty() ? env("LOCKSTEP_DEADLINE") : options.deadlines).start_s;
}

class Agent {
 public:
  Agent(const LaunchOptions& options, const std::string& run_dir, double seconds)
      : options_(options), run_dir_(run_dir), seconds_(seconds), host_(this_host()) {
    make_private_folders(nodes_folder(run_dir));
    over_ = read_own(over_file(run_dir));
    done_ = newest_call(run_dir, host_);
    show_life();
    console_.notice(str("node ", options.hosts.node, " (", host_, ") waits for node 0 at ",
                        options.hosts.address, ":", options.hosts.port));
  }
  ~Agent() {
    std::error_code ignored;
    fs::remove(node_file(run_dir_, options_.hosts.node), ignored);
  }

  int serve() {
    for (double heard = steady_seconds(); steady_seconds() - heard < seconds_;) {
      if (signals_seen() > 0) return 128 + first_signal();
      if (const Json over = read_own(over_file(run_dir_)); over.is_object() && over != over_)
        return static_cast<int>(over.value("exit_code", int64_t{kExitPeer}));
      const std::string call = newest_call(run_dir_, host_);
      if (!call.empty() && call != done_) {
        run_daemon(call);
        done_ = call;
        heard = steady_seconds();
        if (signals_seen() > 1) return 128 + first_signal();
      }
      show_life();
      nap();
    }
    throw PeerError(str("node 0 has not asked for the ranks of this host within ", number_text(seconds_),
                        " s; start the same command with --node-rank 0 at ", options_.hosts.address,
                        ", with the same folder runs, or raise watch.start_deadline"));
  }

 private:
  void show_life() {
    if (sign_ != 0 && steady_seconds() - signed_ < kSign) return;
    signed_ = steady_seconds();
    write_own(node_file(run_dir_, options_.hosts.node),
              {{"host", host_}, {"ranks", options_.hosts.ranks()}, {"pid", getpid()}, {"sign", ++sign_}});
  }

  void run_daemon(const std::string& log_dir) {
    LaunchCommand command;
    command.argv = daemon_words(daemon_file(log_dir, host_));
    command.hosts = options_.hosts;
    command.without = {"OMPI_COMM_WORLD_", "OMPI_MCA_ess", "PMIX_", "PMI_"};
    Leftovers leftovers;
    RankProcess daemon(command, 0, {}, log_dir + "/no-log");
    leftovers.known_child(daemon.pid());
    for (double told = 0; !daemon.look(); nap()) {
      show_life();
      for (const auto& piece : daemon.words().err) console_.line(piece.text);
      if (signals_seen() > 1) daemon.kill_group();
      if (signals_seen() > 0 && steady_seconds() - told > 1) told = steady_seconds(), ask_to_stop(log_dir);
    }
    leftovers.end_all();
  }

  // A host that must leave asks its own ranks to stop; they agree with the others, and all save.
  void ask_to_stop(const std::string& log_dir) {
    if (!asked_.empty()) return;
    console_.notice(
        str(signal_text(first_signal()),
            ": the run finishes its step and saves; a second signal ends the ranks of this host"));
    for (int64_t rank = 0; rank < options_.nproc; ++rank) {
      const Json worker = read_own(worker_file(log_dir, rank));
      if (!worker.is_object() || worker.value("host", std::string()) != host_) continue;
      asked_.insert(rank);
      kill(static_cast<pid_t>(worker.value("pid", int64_t{0})), SIGUSR1);
    }
  }

  const LaunchOptions options_;
  std::string run_dir_;
  double seconds_;
  std::string host_, done_;
  Json over_;
  Console console_;
  int64_t sign_ = 0;
  double signed_ = 0;
  std::set<int64_t> asked_;
};
}  // namespace

int hand_over(const std::string& log_dir, const std::vector<std::string>& words) {
  if (words.size() < 2) throw UserError("hand-over is called by mpirun, with a host and a command");
  std::string line;
  for (size_t i = 1; i < words.size(); ++i) line += words[i] + " ";
  write_own(daemon_file(log_dir, words[0]), {{"words", shell_words(line)}});
  return kExitOk;
}

void await_agents(LaunchOptions& options, const std::string& run_dir, Console& console) {
  make_private_folders(nodes_folder(run_dir));
  const double seconds = start_deadline(options);
  const auto nodes = static_cast<int64_t>(options.hosts.list.size());
  std::map<int64_t, Json> first;  // files that an agent of an earlier command may have left
  std::set<int64_t> there;
  options.hosts.list[0].name = this_host();
  bool said = false;
  const double begin = steady_seconds();
  for (; static_cast<int64_t>(there.size()) < nodes - 1; nap()) {
    std::vector<std::string> missing;
    for (int64_t node = 1; node < nodes; ++node) {
      const Json sign = read_own(node_file(run_dir, node));
      if (!sign.is_object()) {
        missing.push_back(str(node));
        continue;
      }
      const auto [at, fresh] = first.try_emplace(node, sign);
      if (!fresh && at->second != sign) {
        there.insert(node);
        options.hosts.list[node] = {sign.value("host", std::string()), sign.value("ranks", int64_t{1})};
      } else if (!there.count(node)) {
        missing.push_back(str(node));
      }
    }
    if (signals_seen() > 0)
      throw StoppedWaiting(
          str(signal_text(first_signal()),
              ": nothing has begun, and the other nodes are waited for no more; the same command "
              "begins again"));
    if (!missing.empty() && steady_seconds() - begin > 3 && !std::exchange(said, true))
      console.notice(
          str("waits for node ", join(missing, ", "), ": start the same command there, with --node-rank"));
    if (!missing.empty() && steady_seconds() - begin > seconds)
      throw UserError(str("node ", join(missing, ", "), " did not come within ", number_text(seconds),
                          " s; start the same command on each host, with --node-rank 1 to ", nodes - 1,
                          " and the same folder runs (watch.start_deadline is how long it waits)"));
  }
  for (size_t i = 0; i < options.hosts.list.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (options.hosts.list[i].name == options.hosts.list[j].name)
        throw UserError(str("nodes ", j, " and ", i, " are both on a host named ", options.hosts.list[i].name,
                            "; each host must have a name of its own, and one node"));
  if (options.hosts.ranks() != options.nproc)
    throw UserError(str("the nodes start ", options.hosts.ranks(), " ranks, and --nproc says ", options.nproc,
                        "; give the same --nproc on each"));
}

void dismiss_agents(const LaunchOptions& options, const std::string& run_dir, int exit_code) {
  if (options.hosts.reach != Reach::agents) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  write_own(over_file(run_dir), {{"exit_code", exit_code}, {"time", now}, {"pid", getpid()}});
}

int serve_as_agent(const LaunchOptions& options, const std::string& run_dir) {
  refuse_linked_run(run_dir);
  install_signals();
  return Agent(options, run_dir, start_deadline(options)).serve();
}

}  // namespace lockstep::launcher
