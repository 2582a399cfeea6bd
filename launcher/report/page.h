// Page: a report as one HTML file that needs no network: facts, charts, bars and tables, light and dark, on
// wide and narrow screens. The caller provides the content.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::launcher {

struct PageFact {
  std::string name, value, note;  // note: small, below; "" for none
};

// Values over steps, or over the chart's own x axis. Non-finite values are left out.
struct PageSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // ascending by the first
  bool dots = false;                              // few points, each shown
  bool smooth = false;                            // noisy: drawn with a line of means
};
struct PageChart {
  std::string title, unit;
  std::vector<PageSeries> series;
  bool from_zero = false;  // else from the smallest value
  bool log = false;        // if all values are above 0
  std::string x = {};      // meaning of the x values; "": steps
};

// Parts of a whole, as one bar and a list.
struct PagePart {
  std::string name;
  double value = 0;
  std::string text;  // "24.5 ms"
  std::string note = {};
};
struct PageBar {
  std::string title, total;
  std::vector<PagePart> parts;
};

// The first row is the header; if its texts are empty, there is none. The first column is text; the others
// are figures unless `words`.
struct PageTable {
  std::string title;
  std::vector<std::vector<std::string>> rows;
  bool words = false;
};

struct PageEvent {
  double step = 0;  // -1: of none
  std::string time, text;
  bool bad = false;
};

struct PageSection {
  std::string title, text;  // text: a sentence below the title; "" for none
  std::vector<PageChart> charts = {};
  std::vector<PageBar> bars = {};
  std::vector<PageTable> tables = {};
};

struct Page {
  std::string title, below;
  std::vector<PageFact> facts;
  std::vector<PageSection> sections;
  std::vector<PageEvent> events;  // marked in every chart, and listed in their own section
  std::string config;             // text, folded
};

std::string page_html(const Page& page);
// Whether a text is such a page, of any version.
bool is_page(const std::string& text);

// Reduces points to about `most` with the same look: minimum and maximum of each interval, and both ends.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               size_t most);

extern const char* const kPageStyle;
extern const char* const kPageScript;

}  // namespace lockstep::launcher
