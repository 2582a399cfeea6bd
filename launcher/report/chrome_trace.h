// ChromeTrace: rows of spans in the trace event format that ui.perfetto.dev and chrome://tracing open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace lockstep::launcher {

// What one process (a rank) did, as events. Seconds count from the trace's begin, which all ranks share.
class ChromeTrace {
 public:
  ChromeTrace(int process, const std::string& name);
  // Rows stand in the order in which they are named.
  int row(const std::string& name);
  // Of a row, which is made at its first span. Spans of a row stand one behind the other or one within the
  // other, the outer one first.
  void span(const std::string& row, const std::string& name, const std::string& category, double begin,
            double end, const Json& args = {});
  // A span that may overlap others of the row: it goes to the first of "row", "row 2", ... that is free.
  void free_span(const std::string& row, const std::string& name, const std::string& category, double begin,
                 double end, const Json& args = {});
  const std::string& events() const { return events_; }  // JSON objects, with commas between

  // The file, of the events of all ranks.
  static std::string document(const std::vector<std::string>& events, const Json& about);

 private:
  void add(const Json& event);

  int process_;
  std::map<std::string, int> rows_;
  std::map<std::string, double> free_from_;  // rows of free_span
  std::string events_;
};

}  // namespace lockstep::launcher
