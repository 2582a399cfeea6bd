// ChromeTrace: rows of spans in the trace event format that ui.perfetto.dev and chrome://tracing open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace lockstep::launcher {

// The events of one process (a rank). Seconds count from the start of the trace, common to all ranks.
class ChromeTrace {
 public:
  ChromeTrace(int process, const std::string& name);
  // Rows appear in the order in which they are first named.
  int row(const std::string& name);
  // Adds a span to a row, which is created by its first span. Spans of a row are consecutive or nested, outer
  // ones first.
  void span(const std::string& row, const std::string& name, const std::string& category, double begin,
            double end, const Json& args = {});
  // Adds a span that may overlap others: it goes to the first free row of "row", "row 2", ...
  void free_span(const std::string& row, const std::string& name, const std::string& category, double begin,
                 double end, const Json& args = {});
  const std::string& events() const { return events_; }  // JSON objects, with commas between

  // The file's text with the events of all ranks.
  static std::string document(const std::vector<std::string>& events, const Json& about);

 private:
  void add(const Json& event);

  int process_;
  std::map<std::string, int> rows_;
  std::map<std::string, double> free_from_;  // for rows of free_span
  std::string events_;
};

}  // namespace lockstep::launcher
