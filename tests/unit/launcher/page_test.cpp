// The page of a report: whole without a network, whatever the names in it; long runs are thinned.
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/json.h"
#include "core/base/text.h"
#include "launcher/report/page.h"

namespace lockstep {

using namespace launcher;

namespace {

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin), to = text.find(end, from);
  return from == std::string::npos ? "" : text.substr(from + begin.size(), to - from - begin.size());
}
int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

Page sample() {
  Page page;
  page.title = "a <b> & \"c\"";
  page.facts = {{"Loss", "2.5", "first 5"}};
  page.sections.push_back({.title = "Training", .text = "words"});
  page.sections.back().charts = {
      {"Loss",
       "",
       {{"training </script>", {{1, 5.5}, {2, NAN}, {3, 2.5}, {4, INFINITY}}, false, true}},
       true}};
  page.sections.back().charts.push_back(
      {.title = "Memory", .unit = "ms", .series = {{"", {{1.5, 3}, {2.5, 2}}, true}}, .x = "GiB a rank"});
  page.sections.back().bars = {{"Step", "10 ms", {{"work", 9, "9 ms"}, {"waits", 1, "1 ms", "at most"}}}};
  page.sections.back().tables = {{"Plan", {{"", "planned"}, {"step", "9 ms"}}}};
  page.events = {{0, "2026-11-23 00:18", "started"}, {3, "", "rank 1 died <here>", true}};
  page.config = "{\n  \"a\": \"<\"\n}";
  return page;
}

TEST(Page, IsOneFileThatReadsNothingElse) {
  const std::string html = page_html(sample());
  EXPECT_EQ(html.find("<!doctype html>"), 0u);
  for (const char* outside : {"src=", "href=", "@import", "url(", "fetch(", "<link", "https:"})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  EXPECT_EQ(count(html, "http://www.w3.org/2000/svg"), count(html, "http:")) << "a name, which is not read";
  EXPECT_NE(html.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(html.find("name=\"viewport\""), std::string::npos);
}

TEST(Page, TextIsTextAndPointsAreJson) {
  const std::string html = page_html(sample());
  EXPECT_NE(html.find("<h1>a &lt;b&gt; &amp; &quot;c&quot;</h1>"), std::string::npos);
  EXPECT_EQ(count(html, "</script>"), 2) << "the data's and the script's own";
  const Json data = Json::parse(between(html, "id=\"data\">", "</script>"));
  const Json& series = data["charts"][0]["series"][0];
  EXPECT_EQ(series["name"], "training </script>");
  EXPECT_EQ(series["x"].dump(), "[1.0,3.0]") << "what is not finite is left out";
  EXPECT_EQ(series["y"].dump(), "[5.5,2.5]");
  EXPECT_EQ(data["charts"][0]["x"], "") << "over steps";
  EXPECT_EQ(data["charts"][1]["x"], "GiB a rank");
  EXPECT_EQ(data["marks"].size(), 1u) << "the start is no mark";
  EXPECT_EQ(data["marks"][0]["bad"], true);
  EXPECT_NE(html.find("rank 1 died &lt;here&gt;"), std::string::npos);
  EXPECT_NE(html.find("style=\"width:90.000%\""), std::string::npos);
  EXPECT_NE(html.find("<td>step</td><td>9 ms</td>"), std::string::npos);
  EXPECT_NE(html.find("  &quot;a&quot;: &quot;&lt;&quot;\n"), std::string::npos);
}

TEST(Page, LongRunsKeepTheirExtremes) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100000; ++i)
    points.emplace_back(i, i == 70001 ? 50.0 : i == 70002 ? -50.0 : std::sin(i));
  const auto out = thinned(points, 1000);
  EXPECT_LE(out.size(), 1000u);
  EXPECT_GT(out.size(), 900u);
  EXPECT_EQ(out.front(), points.front());
  EXPECT_EQ(out.back(), points.back());
  EXPECT_NE(std::find(out.begin(), out.end(), points[70001]), out.end());
  EXPECT_NE(std::find(out.begin(), out.end(), points[70002]), out.end());
  EXPECT_TRUE(std::is_sorted(out.begin(), out.end()));
  points.resize(10);
  EXPECT_EQ(thinned(points, 1000), points);
}

}  // namespace
}  // namespace lockstep
