// The page's text, and the charts' points as JSON for its script.
#include "launcher/report/page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/json.h"
#include "core/base/markup.h"
#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
// Line breaks are kept.
std::string escaped_lines(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  for (auto& line : lines) line = escaped_markup(line);
  return join(lines, "\n");
}
std::string tag(const std::string& name, const std::string& cls, const std::string& inside) {
  return str("<", name, cls.empty() ? "" : str(" class=\"", cls, "\""), ">", inside, "</", name, ">");
}

constexpr size_t kMostPoints = 1600;

// Inside a script element, characters that could end it are escaped as numbers.
std::string script_json(const Json& json) {
  std::string out;
  for (char c : json.dump(-1, ' ', false, Json::error_handler_t::replace))
    out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

Json series_json(const PageSeries& series) {
  std::vector<std::pair<double, double>> points;
  for (const auto& point : series.points)
    if (std::isfinite(point.second)) points.push_back(point);
  Json x = Json::array(), y = Json::array();
  for (const auto& [step, value] : thinned(points, kMostPoints)) x.push_back(step), y.push_back(value);
  return {{"name", series.name}, {"x", x}, {"y", y}, {"dots", series.dots}, {"smooth", series.smooth}};
}

std::string facts_html(const std::vector<PageFact>& facts) {
  std::string out;
  for (const auto& fact : facts)
    out += tag("div", "fact",
               tag("dt", "", escaped_markup(fact.name)) + tag("dd", "", escaped_markup(fact.value)) +
                   (fact.note.empty() ? "" : tag("p", "", escaped_markup(fact.note))));
  return tag("dl", "facts", out) + "\n";
}

std::string bar_html(const PageBar& bar) {
  double all = 0;
  for (const auto& part : bar.parts) all += std::max(0.0, part.value);
  std::string segments, list;
  size_t color = 0;
  for (const auto& part : bar.parts) {
    const double share = all > 0 ? std::max(0.0, part.value) / all : 0;
    char percent[32];
    std::snprintf(percent, sizeof percent, "%.3f", 100 * share);
    char shown[32];
    std::snprintf(shown, sizeof shown, share > 0 && share < 0.095 ? "%.1f %%" : "%.0f %%", 100 * share);
    const std::string cls = str("c", color++ % 10);
    segments += str("<i class=\"", cls, "\" style=\"width:", percent, "%\" title=\"",
                    escaped_markup(part.name), ": ", escaped_markup(part.text), "\"></i>");
    list += tag("li", "",
                str("<i class=\"", cls, "\"></i>") +
                    tag("span", "name",
                        escaped_markup(part.name) +
                            (part.note.empty() ? "" : tag("small", "", escaped_markup(part.note)))) +
                    tag("span", "figure", escaped_markup(part.text)) + tag("span", "share", shown));
  }
  return tag("figure", "bar",
             tag("figcaption", "", escaped_markup(bar.title) + tag("b", "", escaped_markup(bar.total))) +
                 tag("div", "whole", segments) + tag("ul", "", list)) +
         "\n";
}

std::string table_html(const PageTable& table) {
  std::string rows;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    std::string cells;
    for (const auto& cell : table.rows[r]) cells += tag(r ? "td" : "th", "", escaped_markup(cell));
    if (r ||
        !std::all_of(table.rows[r].begin(), table.rows[r].end(), [](const auto& c) { return c.empty(); }))
      rows += tag("tr", "", cells) + "\n";
  }
  return tag("figure", table.words ? "table words" : "table",
             (table.title.empty() ? "" : tag("figcaption", "", escaped_markup(table.title))) +
                 tag("div", "scroll", tag("table", "", "\n" + rows))) +
         "\n";
}

std::string section_html(const PageSection& section, Json& charts) {
  std::string out = tag("h2", "", escaped_markup(section.title)) + "\n";
  if (!section.text.empty()) out += tag("p", "lead", escaped_markup(section.text)) + "\n";
  std::string drawn;
  for (const auto& chart : section.charts) {
    drawn += str("<figure class=\"chart\" data-chart=\"", charts.size(), "\"></figure>\n");
    Json all = Json::array();
    for (const auto& series : chart.series) all.push_back(series_json(series));
    charts.push_back({{"title", chart.title},
                      {"unit", chart.unit},
                      {"series", all},
                      {"zero", chart.from_zero},
                      {"x", chart.x},
                      {"log", chart.log}});
  }
  if (!drawn.empty()) out += tag("div", "grid", "\n" + drawn) + "\n";
  std::string rest;
  for (const auto& bar : section.bars) rest += bar_html(bar);
  for (const auto& table : section.tables) rest += table_html(table);
  if (!rest.empty()) out += tag("div", "grid", "\n" + rest) + "\n";
  return tag("section", "", "\n" + out) + "\n";
}

std::string events_html(const std::vector<PageEvent>& events) {
  std::string rows;
  for (const auto& event : events)
    rows += tag("li", event.bad ? "bad" : "",
                tag("span", "step",
                    event.step < 0    ? ""
                    : event.step == 0 ? "start"
                                      : str("step ", number_text(event.step))) +
                    tag("span", "what", escaped_markup(event.text)) +
                    tag("time", "", escaped_markup(event.time))) +
            "\n";
  return events.empty()
             ? ""
             : tag("section", "", "\n" + tag("h2", "", "Events") + tag("ol", "events", "\n" + rows)) + "\n";
}
}  // namespace

std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               size_t most) {
  if (points.size() <= most || most < 4) return points;
  const size_t stretches = (most - 2) / 2, inner = points.size() - 2;
  std::vector<std::pair<double, double>> out{points.front()};
  for (size_t s = 0; s < stretches; ++s) {
    const auto begin = points.begin() + 1 + static_cast<std::ptrdiff_t>(s * inner / stretches),
               end = points.begin() + 1 + static_cast<std::ptrdiff_t>((s + 1) * inner / stretches);
    auto [low, high] =
        std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (low == high)
      out.push_back(*low);
    else
      out.insert(out.end(), {*std::min(low, high), *std::max(low, high)});
  }
  out.push_back(points.back());
  return out;
}

namespace {
constexpr std::string_view kPageBegin =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<title>";
constexpr std::string_view kPageData = "</main>\n<script type=\"application/json\" id=\"data\">";
}  // namespace

bool is_page(const std::string& text) {
  return text.starts_with(kPageBegin) && text.find(kPageData) != std::string::npos;
}

std::string page_html(const Page& page) {
  Json charts = Json::array(), marks = Json::array();
  for (const auto& event : page.events)
    if (event.step > 0) marks.push_back({{"step", event.step}, {"text", event.text}, {"bad", event.bad}});
  std::string body = tag("header", "",
                         tag("h1", "", escaped_markup(page.title)) +
                             tag("p", "", escaped_markup(page.below)) + facts_html(page.facts)) +
                     "\n";
  for (const auto& section : page.sections) body += section_html(section, charts);
  body += events_html(page.events);
  if (!page.config.empty())
    body +=
        tag("section", "",
            tag("details", "", tag("summary", "", "Config") + tag("pre", "", escaped_lines(page.config)))) +
        "\n";
  return str(kPageBegin, escaped_markup(page.title), "</title>\n<style>\n", kPageStyle,
             "</style>\n</head>\n<body>\n<main>\n", body, kPageData,
             script_json({{"charts", charts}, {"marks", marks}}), "</script>\n<script>\n", kPageScript,
             "</script>\n</body>\n</html>\n");
}

}  // namespace lockstep::launcher
