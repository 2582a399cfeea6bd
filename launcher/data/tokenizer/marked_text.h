// MarkedText: text made of parts, whose borders survive all changes on the way to tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::launcher::data {

// Thrown when a text exceeds its length limit.
struct TextGrew {
  size_t bytes;
};

struct MarkedText {
  struct Mark {
    size_t at;  // start of a part
    int part;
    bool learnt = false;  // whether a model learns to write it
  };
  std::string text;
  std::vector<Mark> marks;                // ascending; the first at 0
  bool first = true;                      // it is at the start of the text
  size_t most = static_cast<size_t>(-1);  // limit of its size in bytes

  int part_at(size_t byte) const { return marks[mark_at(byte)].part; }
  // Whether bytes [begin, end), or for an empty range the byte at `begin`, include a byte of a learnt part.
  bool learnt_in(size_t begin, size_t end) const {
    for (size_t i = mark_at(begin); i < marks.size() && (marks[i].at <= begin || marks[i].at < end); ++i)
      if (marks[i].learnt && (i + 1 == marks.size() || marks[i + 1].at > std::max(begin, marks[i].at)))
        return true;
    return false;
  }
  void grown(size_t bytes) const {
    if (bytes > most) throw TextGrew{bytes};
  }
  // Bytes [begin, end) as a separate text.
  MarkedText slice(size_t begin, size_t end) const {
    MarkedText out{text.substr(begin, end - begin), {}, first && begin == 0, most};
    size_t i = mark_at(begin);
    out.marks.push_back({0, marks[i].part, marks[i].learnt});
    for (++i; i < marks.size() && marks[i].at < end; ++i)
      out.marks.push_back({marks[i].at - begin, marks[i].part, marks[i].learnt});
    return out;
  }
  // Transforms each part separately: `change` appends the result.
  void each_part(const std::function<void(std::string_view, std::string&)>& change) {
    std::string out;
    std::vector<Mark> moved = marks;
    for (size_t i = 0; i < marks.size(); ++i) {
      const size_t end = i + 1 < marks.size() ? marks[i + 1].at : text.size();
      moved[i].at = out.size();
      change(std::string_view(text).substr(marks[i].at, end - marks[i].at), out);
      grown(out.size());
    }
    text = std::move(out), marks = std::move(moved);
  }
  // Replaces each match, which `find` gives in order, by `by`. If parts meet within a match, `by` belongs to
  // a learnt one, else to the part in which the match begins.
  using Match = std::optional<std::pair<size_t, size_t>>;
  void replace(const std::function<Match()>& find, std::string_view by) {
    std::string out;
    std::vector<Mark> moved = marks;
    size_t done = 0, next = 0;
    auto copy = [&](size_t until) {
      for (; next < marks.size() && marks[next].at <= until; ++next)
        moved[next].at = out.size() + (marks[next].at - done);
      out.append(text, done, until - done);
    };
    for (Match found = find(); found; found = find()) {
      copy(found->first);
      const size_t begin = out.size(), inside = next;
      bool learnt = next > 0 && marks[next - 1].learnt;  // `by` already belongs to a part
      out += by;
      grown(out.size());
      done = found->second;
      for (; next < marks.size() && marks[next].at < done; ++next) {
        moved[next].at = out.size();
        if (learnt || !marks[next].learnt) continue;
        learnt = true;
        for (size_t i = inside; i <= next; ++i) moved[i].at = begin;
      }
    }
    copy(text.size());
    text = std::move(out), marks = std::move(moved);
  }
  // Removes everything outside of bytes [begin, end).
  void keep(size_t begin, size_t end) {
    text = text.substr(begin, end - begin);
    for (Mark& mark : marks) mark.at = std::min(text.size(), mark.at - std::min(mark.at, begin));
  }
  // Inserts text at the front, as a piece of the first part.
  void prepend(std::string_view added) {
    text.insert(0, added);
    for (size_t i = 1; i < marks.size(); ++i) marks[i].at += added.size();
  }

 private:
  // Index of the part with the byte: the last one that begins at or before it.
  size_t mark_at(size_t byte) const {
    const auto behind = std::upper_bound(marks.begin() + 1, marks.end(), byte,
                                         [](size_t at, const Mark& mark) { return at < mark.at; });
    return static_cast<size_t>(behind - marks.begin()) - 1;
  }
};

}  // namespace lockstep::launcher::data
