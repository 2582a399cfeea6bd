// The trace event format: valid JSON whatever the names, rows in order, overlapping spans side by side.
#include <gtest/gtest.h>

#include "launcher/report/chrome_trace.h"

namespace lockstep {

using namespace launcher;

namespace {

TEST(ChromeTrace, RowsSpansAndNames) {
  ChromeTrace trace(3, "rank 3: \"a\\b\"");
  trace.row("host");
  trace.span("compute", "dot <1>\n", "forward", 0.001, 0.0025, {{"bytes", 7}});
  trace.span("host", "\xff not UTF-8", "host", 0, 1e-9);
  const Json file = Json::parse(ChromeTrace::document({trace.events(), "", ChromeTrace(4, "x").events()},
                                                      {{"run", "r"}, {"steps", {3, 4}}}));
  EXPECT_EQ(file["otherData"]["steps"], Json({3, 4}));
  std::map<std::string, int> rows;
  std::vector<Json> spans;
  for (const auto& event : file["traceEvents"]) {
    if (event["name"] == "thread_name") rows[event["args"]["name"]] = event["tid"];
    if (event["ph"] == "X") spans.push_back(event);
  }
  EXPECT_EQ(rows, (std::map<std::string, int>{{"host", 1}, {"compute", 2}}));
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(
      spans[0].dump(),
      R"({"ph":"X","pid":3,"tid":2,"name":"dot <1>\n","cat":"forward","ts":1000.0,"dur":1500.0,"args":{"bytes":7}})");
  EXPECT_EQ(spans[1]["dur"], 0.001);
}

TEST(ChromeTrace, WhatOverlapsTakesAnotherRow) {
  ChromeTrace trace(0, "rank 0");
  trace.free_span("x", "a", "c", 0, 2);
  trace.free_span("x", "b", "c", 1, 3);
  trace.free_span("x", "c", "c", 2, 4);
  trace.free_span("x", "d", "c", 2.5, 3);
  const Json file = Json::parse(ChromeTrace::document({trace.events()}, Json::object()));
  std::map<int, std::string> rows;
  std::string placed;
  for (const auto& event : file["traceEvents"]) {
    if (event["name"] == "thread_name") rows[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "X") placed += event["name"].get<std::string>() + " on " + rows[event["tid"]] + "; ";
  }
  EXPECT_EQ(placed, "a on x; b on x 2; c on x; d on x 3; ");
}

}  // namespace
}  // namespace lockstep
