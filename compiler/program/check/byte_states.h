// ByteStates: the content of a program's memory, byte by byte, for the checks of a program.
#pragma once

#include <cstdint>
#include <map>

#include "compiler/program/words/program.h"

namespace lockstep::compiler {

enum class ByteState {
  none,     // nothing wrote it
  plain,    // may be read any number of times
  once,     // an unread addend: the next reader takes it
  total,    // an unread finished sum: the next reader reads a result
  summed,   // an addend summed over ranks; it may be summed again over others
  settled,  // an addend that was read as a result: nothing may add to it any more
  spent,    // an addend that was taken: nothing may read it
};

inline const char* why_no_addend(ByteState state) {
  return state == ByteState::spent     ? " which was taken already"
         : state == ByteState::settled ? " which was read as a result already"
         : state == ByteState::total   ? " which is a finished sum"
         : state == ByteState::summed  ? " which is summed over ranks already"
                                       : " which is no addend";
}
inline bool is_unread(ByteState state) { return state == ByteState::once || state == ByteState::total; }

class ByteStates {
 public:
  void set(const Span& span, ByteState state) {
    if (span.bytes <= 0) return;
    auto& at = of_[span.region];
    cut(at, span.offset), cut(at, span.offset + span.bytes);
    at.erase(at.lower_bound(span.offset), at.lower_bound(span.offset + span.bytes));
    at[span.offset] = state;
  }
  // Applies change(state) -> state to each stretch (run of bytes of equal state).
  template <class Change>
  void each(const Span& span, Change change) {
    if (span.bytes <= 0) return;
    auto& at = of_[span.region];
    cut(at, span.offset), cut(at, span.offset + span.bytes);
    for (auto i = at.lower_bound(span.offset); i != at.end() && i->first < span.offset + span.bytes; ++i)
      i->second = change(i->second);
  }
  // Whether each byte is plain.
  bool is_plain(const Span& span) {
    bool all = true;
    each(span, [&](ByteState state) { return all = all && state == ByteState::plain, state; });
    return all;
  }
  // look(region, state) for each stretch that was ever touched.
  template <class Look>
  void all(Look look) const {
    for (const auto& [region, at] : of_)
      for (const auto& [from, state] : at) look(region, state);
  }

 private:
  using Stretches = std::map<int64_t, ByteState>;  // by their first byte
  static void cut(Stretches& at, int64_t where) {
    auto next = at.lower_bound(where);
    if (next != at.end() && next->first == where) return;
    at.emplace_hint(next, where, next == at.begin() ? ByteState::none : std::prev(next)->second);
  }
  std::map<int, Stretches> of_;
};
// Whether each byte of the span is plain.
inline bool is_plain(ByteStates& bytes, const Span& span) {
  bool all = true;
  bytes.each(span, [&](ByteState state) { return all = all && state == ByteState::plain, state; });
  return all;
}

}  // namespace lockstep::compiler
