// Draws rows of bars: the instructions of a timeline by colour and label.
#include "launcher/plan/step_picture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "core/base/text.h"
#include "core/ops/op.h"
#include "launcher/plan/predict.h"
#include "launcher/plan/svg.h"

namespace lockstep::launcher {

namespace {
constexpr double kWidth = 1600, kLeft = 190, kRight = 30;
constexpr double kRow = 30, kGap = 6, kSmall = 11, kCell = 2;  // pixels
constexpr std::string_view kWait = "#d1242f", kGrid = "#eaeef2", kQuiet = "#57606a", kInk = "#24292f";

// The kinds of bars, in the order of the legend.
struct Meaning {
  std::string_view fill, words;
};
constexpr Meaning kForward{"#3b7dd8", "forward"}, kBackward{"#9cc4f5", "backward"},
    kSums{"#b39ddb", "gradients added"}, kOnce{"#8c959f", "once a step"},
    kStall{kWait, "stands still (exposed communication)"};
struct OpMeaning {
  std::string_view op;
  Meaning meaning;
};
constexpr OpMeaning kOps[] = {{"lane_exchange", {"#f2a33c", "gradients (lane_exchange)"}},
                              {"weight_gather", {"#2a9d8f", "weights for a micro-batch (weight_gather)"}},
                              {"all_gather", {"#83b561", "weights, loss (all_gather)"}},
                              {"all_reduce", {"#6e7781", "counts, norm, votes (all_reduce)"}},
                              {"model_gather", {"#c9829b", "model_gather"}},
                              {"model_exchange", {"#a3678a", "model_exchange"}},
                              {"copies", {"#d4a72c", "moments, activations from and to the host (copies)"}}};

std::string_view fill_of(const std::string& op) {
  for (const OpMeaning& known : kOps)
    if (known.op == op) return known.meaning.fill;
  return "#6e7781";
}

std::string way(const std::string& along) {
  return along == "inside_hosts"   ? "inside hosts"
         : along == "across_hosts" ? "across hosts"
         : along == kDataDims      ? "all data dims"
                                   : along;
}

std::string milliseconds(double seconds, const char* format = "%.4g") {
  char text[40];
  std::snprintf(text, sizeof text, format, seconds * 1e3);
  return text;
}
std::string from_to(double begin, double end) {
  return str(milliseconds(begin), " to ", milliseconds(end), " ms");
}

// "3" of "exchange 3 round 1".
std::string number_in(const std::string& name) {
  const size_t first = name.find(' ') + 1, end = name.find(' ', first);
  const std::string number = name.substr(first, end == std::string::npos ? end : end - first);
  return number.find_first_not_of("0123456789") == std::string::npos ? number : std::string();
}

struct Bar {
  double begin = 0, end = 0;
  std::string_view fill;
  std::string title, label, brief;  // label: inside the bar if it fits; else brief
  std::string_view ink = kInk;
};
using Bars = std::vector<Bar>;

struct Row {
  std::string name;
  double height = kRow;
  Bars bars, marks;       // marks: along the lower edge
  bool numbered = false;  // bars are labelled by number; every n-th if there are many
};

// The rows of a step.
class Rows {
 public:
  Rows(const compiler::StepProgram& program, const Timeline& timeline, int first_backward)
      : program_(program), timeline_(timeline), first_backward_(first_backward) {
    rows_.resize(2);
    rows_[0].name = "micro-batches", rows_[0].height = 18, rows_[0].numbered = true;
    rows_[1].name = "compute", rows_[1].height = 40;
    for (const auto& work : timeline.work) add_work(work);
    for (const auto& stall : timeline.stalls) add_stall(stall);
    std::stable_sort(rows_[1].bars.begin(), rows_[1].bars.end(),
                     [](const Bar& a, const Bar& b) { return a.begin < b.begin; });
    for (const auto& flight : timeline.flights) add_flight(flight);
  }
  std::vector<Row> take() { return std::move(rows_); }
  // Begin and end of the last micro-batch.
  double last_begin() const { return last_begin_; }
  double body_end() const { return body_end_; }

 private:
  Row& row_of(const std::string& along) {
    auto [found, added] = row_of_.try_emplace(along, rows_.size());
    if (added) rows_.emplace_back().name = way(along);
    return rows_[found->second];
  }

  void add_work(const Timeline::Work& work) {
    const compiler::Instr& instr = program_.instrs[work.instr];
    if (!in_micro_batch(program_, instr)) {
      const auto* run = std::get_if<compiler::RunBlock>(&instr.what);
      const bool rows = (run && run->block == compiler::kCopiesBlock) ||
                        std::holds_alternative<compiler::TakeRows>(instr.what);
      return compute(work.begin, work.end, kOnce,
                     rows                     ? "rows of sparse tables"
                     : last_micro_batch_ < -1 ? "counts"
                                              : "sums, norm, update");
    }
    mark_micro_batch(work, instr.micro_batch);
    const std::string of = str(", micro-batch ", instr.micro_batch);
    const auto* run = std::get_if<compiler::RunBlock>(&instr.what);
    if (!run) return compute(work.begin, work.end, kSums, str(kSums.words, of));
    const auto& until = timeline_.until[run->block];
    const int cut = std::clamp(first_backward_, work.first, work.last);
    const double at = work.begin + static_cast<double>(run->micro_batches) * (until[cut] - until[work.first]);
    if (cut > work.first) compute(work.begin, at, kForward, str(kForward.words, of));
    if (cut < work.last) compute(at, work.end, kBackward, str(kBackward.words, of));
  }
  // Equal neighbours without a gap are merged into one bar.
  void compute(double begin, double end, const Meaning& meaning, const std::string& what) {
    Bars& bars = rows_[1].bars;
    const bool goes_on = !bars.empty() && what_ == what && bars.back().end >= begin;
    if (!goes_on)
      bars.push_back({begin, end, meaning.fill, {}, what.substr(0, what.find(", micro-batch")), {}});
    what_ = what;
    bars.back().end = end;
    bars.back().title = str(what, ": ", from_to(bars.back().begin, end));
  }
  void mark_micro_batch(const Timeline::Work& work, int micro_batch) {
    Bars& bars = rows_[0].bars;
    if (bars.empty() || last_micro_batch_ != micro_batch) {
      bars.push_back({work.begin,
                      work.end,
                      bars.size() % 2 ? "#c8d1da" : "#dfe5eb",
                      {},
                      str("micro-batch ", micro_batch),
                      str(micro_batch)});
      last_begin_ = work.begin;
    }
    last_micro_batch_ = micro_batch;
    bars.back().end = body_end_ = work.end;
    bars.back().title = str("micro-batch ", micro_batch, ": ", from_to(bars.back().begin, work.end));
  }
  void add_stall(const Timeline::Stall& stall) {
    const auto& route = timeline_.routes[timeline_.flights[stall.flight].route];
    Bar bar{stall.begin,
            stall.end,
            kWait,
            str("stands still for ", route.name, " along ", route.along, ": ",
                seconds_text(stall.end - stall.begin)),
            "wait",
            {},
            "#ffffff"};
    rows_[1].bars.push_back(bar);
    bar.label.clear();
    row_of(route.along).marks.push_back(std::move(bar));
  }
  void add_flight(const Timeline::Flight& flight) {
    const auto& route = timeline_.routes[flight.route];
    Bars& bars = row_of(route.along).bars;
    if (!flight.goes_on || bars.empty()) {
      bars.push_back({flight.begin, flight.end, fill_of(route.op), {}, route.name, number_in(route.name)});
      sent_ = 0, exposed_ = 0;
    }
    bars.back().end = flight.end;
    sent_ += flight.sent, exposed_ += flight.exposed;
    bars.back().title =
        str(route.name, ", ", route.op, " along ", route.along,
            flight.micro_batch < 0 ? "" : str(", micro-batch ", flight.micro_batch), ": ",
            bytes_text(static_cast<double>(sent_)), " sent, ", from_to(bars.back().begin, flight.end),
            exposed_ > 0 ? str(", ", seconds_text(exposed_), " exposed") : std::string());
  }

  const compiler::StepProgram& program_;
  const Timeline& timeline_;
  int first_backward_;
  std::vector<Row> rows_;
  std::map<std::string, size_t> row_of_;
  std::string what_;  // kind of the newest computation bar
  int last_micro_batch_ = -2;
  double last_begin_ = 0, body_end_ = 0;
  int64_t sent_ = 0;  // bytes of the growing bar
  double exposed_ = 0;
};

// An interval of the step, drawn over the whole width.
struct Window {
  std::string name;
  double from = 0, to = 0;
  double x(double at) const { return kLeft + (at - from) / (to - from) * (kWidth - kLeft - kRight); }
};

class Page {
 public:
  explicit Page(const PictureWords& words) : words_(words) {
    svg_.words(24, 34, shortened(words.title, 120), {.size = 19, .bold = true});
    svg_.words(24, 56, shortened(words.below, 185), {.size = 13, .fill = kQuiet});
  }

  void panel(const Window& window, const std::vector<Row>& rows) {
    svg_.words(24, y_ + 14, window.name, {.size = 13, .bold = true});
    y_ += 24;
    const double top = y_;
    double bottom = top;
    for (const Row& row : rows) bottom += row.height + kGap;
    grid(window, top, bottom);
    for (const Row& row : rows) {
      svg_.words(kLeft - 12, y_ + row.height / 2 + 4, shortened(row.name, 28), {.anchor = Svg::Anchor::end});
      const auto drawn = draw(window, row.bars, y_, row.height);
      row.numbered ? number(drawn, y_, row.height) : label(drawn, y_, row.height);
      draw(window, row.marks, y_ + row.height - 5, 5);
      y_ += row.height + kGap;
    }
    y_ = bottom + 42;
  }

  void legend(const std::set<std::string_view>& used) {
    double x = 24;
    auto entry = [&](const Meaning& meaning) {
      if (!used.count(meaning.fill)) return;
      const std::string words(meaning.words);
      const double width = 24 + Svg::width_of(words, 12) + 22;
      if (x + width > kWidth - 24) x = 24, y_ += 22;
      svg_.box({x, y_ - 10, 16, 12}, meaning.fill);
      svg_.words(x + 22, y_, words, {});
      x += width;
    };
    for (const Meaning& meaning : {kForward, kBackward, kSums, kOnce, kStall}) entry(meaning);
    for (const OpMeaning& known : kOps) entry(known.meaning);
    y_ += 24;
  }

  std::string document() const { return svg_.document(kWidth, y_, words_.title); }

 private:
  // Ticks of 1, 2 or 5 times a power of ten, about ten of them.
  void grid(const Window& window, double top, double bottom) {
    const double span = (window.to - window.from) * 1e3;
    double step = std::pow(10, std::floor(std::log10(span / 10)));
    for (double factor : {2.0, 2.5, 2.0})
      if (span / step > 14) step *= factor;
    const auto digits = static_cast<int>(std::max(0.0, -std::floor(std::log10(step) + 1e-9)));
    const std::string format = str("%.", digits, "f");
    for (double n = std::max(0.0, std::ceil(window.from * 1e3 / step - 1e-9));
         n * step <= window.to * 1e3 + 1e-9 * step; ++n) {
      const double x = window.x(n * step / 1e3);
      svg_.line(x, top - 4, x, bottom, kGrid);
      svg_.words(x, bottom + 12, milliseconds(n * step / 1e3, format.c_str()),
                 {.size = 11, .anchor = Svg::Anchor::middle, .fill = kQuiet});
    }
    svg_.line(kLeft, bottom, kWidth - kRight, bottom, kQuiet);
    svg_.words(kLeft - 40, bottom + 12, "ms", {.size = 11, .anchor = Svg::Anchor::end, .fill = kQuiet});
  }

  struct Drawn {
    const Bar* bar;
    double from, width;
    bool narrow() const { return width < kCell; }
    int64_t first_cell() const { return static_cast<int64_t>(from / kCell); }
    int64_t last_cell() const { return static_cast<int64_t>((from + width) / kCell); }
  };
  // Returns the bars that are drawn individually. A cell of two pixels with three or more narrow bars is
  // instead filled by their shares of time, stacked.
  std::vector<Drawn> draw(const Window& window, const Bars& bars, double y, double height) {
    std::vector<Drawn> all, out;
    std::map<int64_t, int> narrow;  // per cell
    for (const Bar& bar : bars) {
      if (bar.end <= window.from || bar.begin >= window.to) continue;
      const double from = window.x(std::max(bar.begin, window.from));
      all.push_back({&bar, from, window.x(std::min(bar.end, window.to)) - from});
      if (all.back().narrow())
        for (int64_t c = all.back().first_cell(); c <= all.back().last_cell(); ++c) ++narrow[c];
    }
    std::erase_if(narrow, [](const auto& cell) { return cell.second < 3; });
    std::map<int64_t, std::vector<Drawn>> cells;
    for (const Drawn& drawn : all) {
      bool as_bar = !drawn.narrow();
      for (int64_t c = drawn.first_cell(); c <= drawn.last_cell(); ++c)
        if (narrow.count(c))
          cells[c].push_back(drawn);
        else
          as_bar = true;
      if (!as_bar) continue;
      svg_.box({drawn.from, y, std::max(drawn.width, 0.8), height}, drawn.bar->fill, drawn.bar->title);
      out.push_back(drawn);
    }
    for (const auto& [cell, inside] : cells) fill(static_cast<double>(cell) * kCell, inside, y, height);
    return out;
  }
  void fill(double x, const std::vector<Drawn>& inside, double y, double height) {
    std::map<std::string_view, double> shares;
    for (const Drawn& drawn : inside)
      shares[drawn.bar->fill] +=
          std::max(0.0, std::min(drawn.from + drawn.width, x + kCell) - std::max(drawn.from, x)) / kCell;
    const std::string title = str(inside[0].bar->title, ", and ", inside.size() - 1, " more");
    svg_.box({x, y, kCell, height}, "#ffffff");
    double at = y + height;
    for (const auto& [fill, share] : shares) {
      const double part = std::min(share * height, at - y);
      at -= part;
      svg_.box({x, at, kCell, part}, fill, title);
    }
  }

  void label(const std::vector<Drawn>& drawn, double y, double height) {
    for (const auto& [bar, x, width] : drawn)
      for (const std::string* text : {&bar->label, &bar->brief})
        if (!text->empty() && Svg::width_of(*text, kSmall) <= width - 4) {
          svg_.words(x + width / 2, y + height / 2 + kSmall / 3, *text,
                     {.size = kSmall, .anchor = Svg::Anchor::middle, .fill = bar->ink});
          break;
        }
  }
  // Labels all with words or all by number if they fit; else words where they fit, and every second, fifth,
  // tenth ... of the rest by number.
  void number(const std::vector<Drawn>& drawn, double y, double height) {
    double widest = 0, narrowest = kWidth, free = 0;
    for (const auto& [bar, x, width] : drawn) {
      widest = std::max(widest, Svg::width_of(bar->brief, kSmall) + 4);
      narrowest = std::min(narrowest, width);
    }
    size_t every = 1;
    for (size_t factor = 2; static_cast<double>(every) * narrowest < widest; factor = factor == 2 ? 5 : 2)
      every = factor == 2 ? every * 2 : every / 2 * 5;
    for (size_t i = 0; i < drawn.size(); ++i) {
      const auto& [bar, x, width] = drawn[i];
      const bool whole = Svg::width_of(bar->label, kSmall) <= width - 4;
      const std::string& text = whole ? bar->label : bar->brief;
      const double middle = x + width / 2, half = Svg::width_of(text, kSmall) / 2;
      if ((!whole && i % every) || middle - half < free) continue;
      svg_.words(middle, y + height / 2 + kSmall / 3, text, {.size = kSmall, .anchor = Svg::Anchor::middle});
      free = middle + half + 4;
    }
  }

  const PictureWords& words_;
  Svg svg_;
  double y_ = 76;
};
}  // namespace

std::string step_picture(const compiler::StepProgram& program, const Timeline& timeline, int first_backward,
                         const PictureWords& words) {
  Rows made(program, timeline, first_backward);
  const double end = std::max(timeline.end, 1e-9);
  std::vector<Window> windows{{"the step", 0, end}};
  // Each further interval must enlarge by at least half.
  auto enlarge = [&](std::string name, double from) {
    if (end - from > 0 && end - from < 0.67 * (windows.back().to - windows.back().from))
      windows.push_back({std::move(name), from, end});
  };
  enlarge("enlarged: the last micro-batch and what follows", made.last_begin());
  enlarge("enlarged: the end", std::max(0.0, 2 * made.body_end() - end));
  const std::vector<Row> rows = made.take();
  Page page(words);
  for (const Window& window : windows) page.panel(window, rows);
  std::set<std::string_view> used;
  for (const Row& row : rows)
    for (const Bars* bars : {&row.bars, &row.marks})
      for (const Bar& bar : *bars) used.insert(bar.fill);
  page.legend(used);
  return page.document();
}

}  // namespace lockstep::launcher
