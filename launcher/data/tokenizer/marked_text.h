// Text that is made of parts: what becomes of it on the way to tokens keeps the borders of the parts.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::launcher::data {

struct MarkedText {
  struct Mark {
    size_t at;  // where a part begins
    int part;
  };
  std::string text;
  std::vector<Mark> marks;  // ascending; the first at 0
  bool first = true;        // nothing stands before it

  int part_at(size_t byte) const {
    size_t i = marks.size();
    while (i > 1 && marks[i - 1].at > byte) --i;
    return marks[i - 1].part;
  }
  // Bytes [begin, end) as a text of its own.
  MarkedText slice(size_t begin, size_t end) const {
    MarkedText out{text.substr(begin, end - begin), {}, first && begin == 0};
    for (const Mark& mark : marks)
      if (mark.at <= begin || out.marks.empty())
        out.marks.assign(1, {0, mark.part});
      else if (mark.at < end)
        out.marks.push_back({mark.at - begin, mark.part});
    return out;
  }
  // Each part by itself through `change`, which appends what becomes of it.
  void each_part(const std::function<void(std::string_view, std::string&)>& change) {
    std::string out;
    std::vector<Mark> moved;
    for (size_t i = 0; i < marks.size(); ++i) {
      const size_t end = i + 1 < marks.size() ? marks[i + 1].at : text.size();
      moved.push_back({out.size(), marks[i].part});
      change(std::string_view(text).substr(marks[i].at, end - marks[i].at), out);
    }
    text = std::move(out), marks = std::move(moved);
  }
  // `by` in place of each match; `find` gives the next one from a byte on. What a part begins with within a
  // match goes with the match.
  using Match = std::optional<std::pair<size_t, size_t>>;
  void replace(const std::function<Match(size_t from)>& find, std::string_view by) {
    std::string out;
    std::vector<Mark> moved = marks;
    size_t done = 0, next = 0;
    auto copy = [&](size_t until) {
      for (; next < marks.size() && marks[next].at <= until; ++next)
        moved[next].at = out.size() + (marks[next].at - done);
      out.append(text, done, until - done);
    };
    for (Match found = find(0); found && found->second > found->first; found = find(done)) {
      copy(found->first);
      out += by;
      done = found->second;
      for (; next < marks.size() && marks[next].at < done; ++next) moved[next].at = out.size();
    }
    copy(text.size());
    text = std::move(out), marks = std::move(moved);
  }
  // Without what lies outside of bytes [begin, end).
  void keep(size_t begin, size_t end) {
    text = text.substr(begin, end - begin);
    for (Mark& mark : marks) mark.at = std::min(text.size(), mark.at - std::min(mark.at, begin));
  }
  // In front, as of the first part.
  void prepend(std::string_view added) {
    text.insert(0, added);
    for (size_t i = 1; i < marks.size(); ++i) marks[i].at += added.size();
  }
};

}  // namespace lockstep::launcher::data
