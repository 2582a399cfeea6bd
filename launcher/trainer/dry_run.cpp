// Plans a run without allocating on a device.
#include "launcher/trainer/dry_run.h"

#include "core/base/error.h"
#include "launcher/machine/hosts.h"

namespace lockstep::launcher {

namespace {
// A world without connections: enough for layouts, no communication.
LiveMesh paper_mesh(const RunConfig& config, const Mesh& words) {
  LiveMesh mesh = solo_mesh();
  const Hosts hosts = hosts_of(config, words, 0);
  mesh.words = words;
  mesh.ranks_per_node = hosts.ranks_per_node;
  mesh.seats = hosts.seats;
  return mesh;
}
}  // namespace

MemoryNeeds device_needs(const RunConfig& config, const State& state, const Trainer& trainer,
                         const PaperStep& step, int64_t sequences, const LibraryBounds& bounds) {
  if (sequences <= 0) return device_needs(config, state, step, nullptr, bounds);
  const PaperStep evaluation(trainer.plan_evaluation(state.mesh().words, sequences), state.mesh());
  return device_needs(config, state, step, &evaluation, bounds);
}

PaperRun::PaperRun(const RunConfig& config, int64_t nproc, const compiler::Target& target,
                   const Roofline* roofline)
    : words(validate(config, nproc)),
      state(paper_mesh(config, words), static_cast<uint64_t>(config.train.seed)),
      trainer(config, nproc, state, target, roofline),
      step(trainer.plan_training(words), state.mesh()) {}

namespace {
// The largest activation budget with which the unchanged config fits. Memory outside the arena is fixed, so
// the budget is the arena minus the excess; if libraries then need more, this is repeated once.
std::optional<Fit> within_a_budget(const RunConfig& config, int64_t nproc, const compiler::Target& target,
                                   int64_t sequences, const LibraryBounds& bounds, int64_t available) {
  constexpr int kTries = 3;
  if (config.compile.memory_budget != "none") return {};
  RunConfig other = config;
  try {
    for (int tried = 0; tried <= kTries; ++tried) {
      PaperRun run(other, nproc, target);
      const int64_t total = device_needs(other, run.state, run.trainer, run.step, sequences, bounds).total();
      if (total <= available)
        return Fit{.micro = config.batch.micro,
                   .ranks = nproc,
                   .bytes = total,
                   .budget = other.compile.memory_budget};
      const int64_t budget = run.step.held.arena - (total - available);
      if (budget <= 0) return {};
      other.compile.memory_budget = budget_word(budget);
    }
  } catch (const UserError&) {}  // no choice of values fits this budget
  return {};
}
}  // namespace

std::optional<Fit> nearest_config(const RunConfig& config, int64_t nproc, const compiler::Target& target,
                                  int64_t sequences, const LibraryBounds& bounds, int64_t available) {
  if (auto fit = within_a_budget(config, nproc, target, sequences, bounds, available)) return fit;
  return nearest_fit(
      config.batch.micro, nearby_meshes(validate(config, nproc)), available,
      [&](int64_t micro, const Mesh& mesh) -> std::optional<int64_t> {
        RunConfig other = config;
        other.batch.micro = micro;
        other.mesh.shape = mesh.shape;
        other.mesh.dim_names = mesh.dim_names;
        try {
          // A state on the device may be too large by itself, which needs no plan to find out.
          State state(paper_mesh(other, mesh), 0);
          Trainer trainer(other, mesh.size(), state, target);
          if (int64_t held = state.bytes_per_rank(); held > available && !other.optim.offload) return held;
          PaperRun run(other, mesh.size(), target);
          return device_needs(other, run.state, run.trainer, run.step, sequences, bounds).total();
        } catch (const UserError&) {
          return {};  // invalid sizes, or lanes that do not divide
        }
      });
}

}  // namespace lockstep::launcher
