// together(): local work that every rank does and that may fail on one of them. All ranks continue, or all
// throw.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <type_traits>

#include "core/base/error.h"
#include "core/mesh/group.h"

namespace lockstep {

// Second half of together(): the ranks agree on the text of a UserError, then on that of any other failure. A
// rank rethrows its own `defect`. Collective.
void settle_together(Group& group, const std::string& refused, const std::string& broken,
                     std::exception_ptr defect);

// Runs `work` and returns its result if it succeeded on all ranks. Otherwise all ranks throw, before one
// could wait for another. A UserError has the text of the first rank that has one (as agree). Any other
// failure is rethrown on its rank and is a PeerError on the others. A PeerError inside `work` is rethrown at
// once, since peers are lost. `work` must not call collectives. Collective over `group`.
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
