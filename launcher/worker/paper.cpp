// Planning without a device's memory: executables that only have sizes, reducers that only count.
#include "launcher/worker/paper.h"

#include <algorithm>

#include "compiler/run/gradient_reducer.h"
#include "compiler/run/tail.h"
#include "core/base/error.h"

namespace lockstep {

namespace {
// The world as words alone: enough for layouts, none for messages.
LiveMesh paper_mesh(const Mesh& words) {
  LiveMesh mesh = solo_mesh();
  mesh.words = words;
  return mesh;
}
// Libraries choose their algorithms on the device of the plan.
StepExecutables on_device(const StepPlan& plan) {
  if (plan.options.backend != Backend::reference) target_of(plan.options).device().enter();
  return make_executables(plan);
}
}  // namespace

PaperStep::PaperStep(StepPlan planned, const Mesh& mesh)
    : plan(std::move(planned)),
      executables(on_device(plan)),
      ranks(static_cast<int>(mesh.data_size())),
      reduction(0) {
  auto counting = cpu_target().make_reductions({});  // adds nothing here
  const auto shapes = bucket_shapes(plan);
  int64_t micro_batches = 0;
  // Ranks are left with different partial sums and rows; the fullest one counts.
  for (int r = 0; r < ranks; ++r) {
    const LanePlan lanes{plan.micro_batches, plan.lanes, ranks, r, plan.order};
    auto reducers = make_reducers(shapes, lanes, RowOwners::of(mesh), cpu_device(), *counting, plan.options.invariant);
    reduction = std::max(reduction, reducers.bytes());
    if (r == 0) exchanged = reducers.sent_bytes();
    micro_batches = std::max(micro_batches, lanes.slots(r));
  }
  reduction += tail_bytes(plan.phases, mesh, 0);
  for (const auto& field : plan.fields) batches += micro_batches * numel(field.shape) * static_cast<int64_t>(size_of(field.dtype));
}

MemoryNeeds device_needs(const RunConfig& config, const State& state, const Trainer& trainer, const PaperStep& step, int64_t sequences,
                         const LibraryBounds& bounds) {
  StepBytes bytes{.arena = step.executables.arena_bytes(), .batches = step.batches, .reduction = step.reduction};
  if (compute_dtype(config) != DType::f32 && step.plan.options.backend != Backend::reference) {
    bytes.copies = step.executables.seed->arena_bytes();
    bytes.arena -= bytes.copies;
  }
  if (sequences > 0) {
    const Mesh& words = state.mesh().words;
    PaperStep evaluation(trainer.plan_evaluation(words, sequences), words);
    bytes.evaluation = evaluation.executables.arena_bytes() + evaluation.reduction;
    bytes.batches += evaluation.batches;
  }
  return device_needs(state, bytes, bounds);
}

LibraryBounds library_bounds(const std::string& device, const Target& target) {
  LibraryBounds bounds;
  if (target.device().kind() == "cuda")
    bounds.workspace = 0;
  else if (device_choice(device).kind != "cuda")
    bounds = {0, 0, 0, 0};
  return bounds;
}

PaperRun::PaperRun(const RunConfig& config, int64_t nproc, const Target& target)
    : words(validate(config, nproc)),
      state(paper_mesh(words), static_cast<uint64_t>(config.train.seed)),
      trainer(config, nproc, state, target),
      step(trainer.plan_training(words), words) {}

std::optional<Fit> nearest_config(const RunConfig& config, int64_t nproc, const Target& target, int64_t sequences,
                                  const LibraryBounds& bounds, int64_t available) {
  return nearest_fit(config.batch.micro, nproc, available, [&](int64_t micro, int64_t ranks) -> std::optional<int64_t> {
    RunConfig other = config;
    other.batch.micro = micro;
    try {
      PaperRun run(other, ranks, target);
      return device_needs(other, run.state, run.trainer, run.step, sequences, bounds).total();
    } catch (const UserError&) {
      return {};  // a mesh of fixed sizes, lanes that do not divide
    }
  });
}

}  // namespace lockstep
