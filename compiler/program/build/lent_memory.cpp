// Places regions of one program in arenas of another.
#include "compiler/program/build/lent_memory.h"

#include <algorithm>
#include <numeric>

#include "compiler/schedule/arena.h"

namespace lockstep::compiler {

namespace {
bool may_be_lent(const Region& region, bool evaluates) {
  using Kind = Region::Kind;
  const bool of_a_run =
      region.kind == Kind::value || region.kind == Kind::partial || region.kind == Kind::staging;
  return !region.on_host && region.bytes > 0 && (region.kind == Kind::arena || (evaluates && of_a_run));
}
}  // namespace

std::vector<Span> lent_places(const StepProgram& guest, const StepProgram& lender) {
  // A rank that owns no updated row decides like the others.
  const bool evaluates = guest.updated.empty() && guest.put.empty();
  std::vector<int> order(guest.regions.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return guest.regions[a].bytes > guest.regions[b].bytes; });
  std::vector<int64_t> taken(lender.regions.size(), 0);
  std::vector<Span> out(guest.regions.size());
  for (int r : order) {
    const Region& region = guest.regions[r];
    if (!may_be_lent(region, evaluates)) continue;
    for (size_t to = 0; to < taken.size() && !out[r].there(); ++to) {
      const Region& arena = lender.regions[to];
      if (arena.kind != Region::Kind::arena || arena.on_host || taken[to] + region.bytes > arena.bytes)
        continue;
      out[r] = {static_cast<int>(to), taken[to], region.bytes};
      taken[to] += aligned_bytes(region.bytes);
    }
  }
  return out;
}

int64_t lent_bytes(const StepProgram& guest, const StepProgram& lender) {
  int64_t sum = 0;
  for (const Span& span : lent_places(guest, lender)) sum += span.bytes;
  return sum;
}

}  // namespace lockstep::compiler
