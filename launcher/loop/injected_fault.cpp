// Injected faults: flips bits in host memory.
#include "launcher/loop/injected_fault.h"

#include <cstddef>
#include <utility>

namespace lockstep::launcher {

namespace {
using Fill = std::function<void(int64_t, int64_t, const std::vector<void*>&)>;

void flip_after(Fill& fill) {
  if (!fill) return;
  fill = [right = std::move(fill)](int64_t first, int64_t count, const std::vector<void*>& fields) {
    right(first, count, fields);
    *static_cast<std::byte*>(fields[0]) ^= std::byte{0x01};
  };
}
}  // namespace

void flip_batch(compiler::StepInput& fed) {
  flip_after(fed.fill);
  flip_after(fed.fill_next);
}

void inject_fault(const WorkerPlace& at, int64_t step, State& state, compiler::StepInput& fed) {
  if (fault_lasts(at, "wrong", step)) flip_batch(fed);
  const bool flip = fault_due(at, "flip", step), burst = fault_due(at, "burst", step),
             spike = fault_due(at, "spike", step);
  if (!flip && !burst && !spike) return;
  Array& weight = *state.arrays()[0];
  weight.fetch();
  if (flip) weight.data.data()[1] ^= std::byte{0x08};
  if (burst) weight.data.data()[3] ^= std::byte{0x40};
  if (spike) *weight.data.as<float>() *= 1e6f;
  weight.host_wrote();
}

}  // namespace lockstep::launcher
