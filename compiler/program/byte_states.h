// ByteStates: what a program's memory holds, byte by byte, as the checks of a program need to know it.
#pragma once

#include <cstdint>
#include <map>

#include "compiler/program/program.h"

namespace lockstep::compiler {

enum class ByteState {
  none,     // nothing wrote it
  plain,    // may be read as often as one likes
  once,     // an addend that was not read: the next reader takes it
  total,    // a finished sum that was not read: the next reader reads a result
  summed,   // an addend that is summed over ranks; over others it may be summed again
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
  // change(state) -> state, for each stretch of equal state.
  template <class Change>
  void each(const Span& span, Change change) {
    if (span.bytes <= 0) return;
    auto& at = of_[span.region];
    cut(at, span.offset), cut(at, span.offset + span.bytes);
    for (auto i = at.lower_bound(span.offset); i != at.end() && i->first < span.offset + span.bytes; ++i)
      i->second = change(i->second);
  }
  // Whether each byte is.
  bool is_plain(const Span& span) {
    bool all = true;
    each(span, [&](ByteState state) { return all = all && state == ByteState::plain, state; });
    return all;
  }
  // look(region, state) for each stretch of all that was ever touched.
  template <class Look>
  void all(Look look) const {
    for (const auto& [region, at] : of_)
      for (const auto& [from, state] : at) look(region, state);
  }

 private:
  using Stretches = std::map<int64_t, ByteState>;  // by where they begin
  static void cut(Stretches& at, int64_t where) {
    auto next = at.lower_bound(where);
    if (next != at.end() && next->first == where) return;
    at.emplace_hint(next, where, next == at.begin() ? ByteState::none : std::prev(next)->second);
  }
  std::map<int, Stretches> of_;
};
// Of each byte of the span.
inline bool is_plain(ByteStates& bytes, const Span& span) {
  bool all = true;
  bytes.each(span, [&](ByteState state) { return all = all && state == ByteState::plain, state; });
  return all;
}

}  // namespace lockstep::compiler
