// together(): local work that every rank does and that may fail on one of them. All go on, or all throw.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <type_traits>

#include "core/base/error.h"
#include "core/mesh/group.h"

namespace lockstep {

// After the work: agrees on the text of a UserError, then on that of any other failure; `defect` is rethrown
// where it is this rank's own. Collective. For together().
void settle_together(Group& group, const std::string& refused, const std::string& broken,
                     std::exception_ptr defect);

// Runs `work` and returns its result when it went well on all ranks. Else all throw, before one of them can
// wait for another: UserError with the text of the first rank that has one (as agree); for any other failure
// the rank's own exception, which is a PeerError to the others. A PeerError inside `work` leaves at once: the
// world is gone. No collective belongs inside. Collective over `group`.
template <class Work>
auto together(Group& group, Work work) {
  using Result = decltype(work());
  using Kept = std::conditional_t<std::is_void_v<Result>, bool, Result>;
  std::optional<Kept> result;
  std::string refused, broken;
  std::exception_ptr defect;
  try {
    if constexpr (std::is_void_v<Result>)
      work();
    else
      result.emplace(work());
  } catch (const PeerError&) { throw; } catch (const UserError& error) {
    refused = error.what();
  } catch (const std::exception& error) {
    broken = error.what();
    defect = std::current_exception();
  }
  settle_together(group, refused, broken, defect);
  if constexpr (!std::is_void_v<Result>) return std::move(*result);
}

}  // namespace lockstep
