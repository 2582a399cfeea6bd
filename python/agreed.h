// Refuses on all ranks a value that one rank refuses.
#pragma once

#include "core/mesh/together.h"
#include "python/binding.h"

namespace lockstep::python {

// Returns the result of `work`, which reads Python values before a collective. If it raises on one rank, all
// ranks raise (see together()), before the others wait in that collective. Collective.
template <class Work>
auto agreed(const State& state, Work work) {
  Computing elsewhere;
  nb::gil_scoped_release release;
  return together(*state.mesh().world, [&] {
    nb::gil_scoped_acquire python;
    return work();
  });
}

}  // namespace lockstep::python
