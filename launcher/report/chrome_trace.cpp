// ChromeTrace: writes events as JSON objects: "X" with begin and duration in microseconds, "M" with names.
#include "launcher/report/chrome_trace.h"

#include <cmath>

#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
// Nanosecond precision; more digits are noise.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }
}  // namespace

ChromeTrace::ChromeTrace(int process, const std::string& name) : process_(process) {
  add({{"ph", "M"}, {"pid", process}, {"name", "process_name"}, {"args", {{"name", name}}}});
  add({{"ph", "M"}, {"pid", process}, {"name", "process_sort_index"}, {"args", {{"sort_index", process}}}});
}

void ChromeTrace::add(const Json& event) {
  if (!events_.empty()) events_ += ",\n";
  events_ += text_of(event);
}

int ChromeTrace::row(const std::string& name) {
  auto [found, made] = rows_.try_emplace(name, static_cast<int>(rows_.size()) + 1);
  if (!made) return found->second;
  const int id = found->second;
  add({{"ph", "M"}, {"pid", process_}, {"tid", id}, {"name", "thread_name"}, {"args", {{"name", name}}}});
  add({{"ph", "M"},
       {"pid", process_},
       {"tid", id},
       {"name", "thread_sort_index"},
       {"args", {{"sort_index", id}}}});
  return id;
}

void ChromeTrace::span(const std::string& on, const std::string& name, const std::string& category,
                       double begin, double end, const Json& args) {
  Json event{{"ph", "X"}, {"pid", process_}, {"tid", row(on)}, {"name", name}, {"cat", category}};
  event["ts"] = microseconds(begin);
  event["dur"] = microseconds(microseconds(end) * 1e-6 - microseconds(begin) * 1e-6);
  if (args.is_object() && !args.empty()) event["args"] = args;
  add(event);
}

void ChromeTrace::free_span(const std::string& on, const std::string& name, const std::string& category,
                            double begin, double end, const Json& args) {
  for (int lane = 1;; ++lane) {
    const std::string row = lane == 1 ? on : str(on, " ", lane);
    auto [free, made] = free_from_.try_emplace(row, 0);
    if (!made && free->second > begin) continue;
    free->second = end;
    return span(row, name, category, begin, end, args);
  }
}

std::string ChromeTrace::document(const std::vector<std::string>& events, const Json& about) {
  std::vector<std::string> there;
  for (const auto& part : events)
    if (!part.empty()) there.push_back(part);
  return str("{\"displayTimeUnit\": \"ms\",\n\"otherData\": ", text_of(about), ",\n\"traceEvents\": [\n",
             join(there, ",\n"), "\n]}\n");
}

}  // namespace lockstep::launcher
