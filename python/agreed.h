// What is refused on one rank is refused on all.
#pragma once

#include "core/mesh/together.h"
#include "python/binding.h"

namespace lockstep::python {

// What `work` gives, which reads Python's values in front of a collective. Where it raises on one rank, all
// ranks raise (see together()), before the others wait in that collective for it. Collective.
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
