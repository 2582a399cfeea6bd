// A separate program in the memory of the step's program.
#include "compiler/runtime/recomputation.h"

#include <utility>

#include "compiler/program/build/build.h"
#include "compiler/runtime/step_inputs.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
// The body and the blocks before it, as in the step: equal blocks have equal arenas.
StepBlocks front_of(const StepProgram& step) {
  return {step.blocks[kCountBlock],  step.blocks[kSeedBlock],
          step.blocks[kBodyBlock],   step.blocks[kCopiesBlock],
          step.blocks[kMaximaBlock], step.blocks[kCastBlock],
          step.blocks[kScalesBlock], {}};
}

// Regions that the next step overwrites before it reads them, or that both only read. Sample numbers are
// written once.
bool is_shared(const Region& region) {
  using Kind = Region::Kind;
  const bool input = region.kind == Kind::input && region.name != "rng.sample";
  return input || region.kind == Kind::state || region.kind == Kind::arena || region.kind == Kind::value ||
         region.kind == Kind::staging;
}
}  // namespace

Recomputation::Recomputation(const StepPlan& plan, const StepProgram& step, const Executor& memory,
                             const ProgramRank& rank, const LiveMesh& mesh, Device& device,
                             Reductions& reductions)
    : plan_(plan), device_(device), program_(build_recomputation(plan, front_of(step), rank)) {
  executor_ = std::make_unique<Executor>(
      Executor::Parts{program_, plan.phases.whole, plan.options, plan.kernels, mesh, device, reductions,
                      [this, &step, &memory](size_t r) -> std::byte* {
                        const Region& region = program_.regions[r];
                        const Span span = is_shared(region) ? step.find(region.kind, region.name) : Span{};
                        return span.there() && span.bytes >= region.bytes ? memory.at(span) : nullptr;
                      }});
  executor_->prepare();
}

void Recomputation::fill(const StepInput& input, int64_t micro_batch) {
  const int64_t samples = plan_.fields[0].shape[0], first = micro_batch * samples;
  std::vector<std::vector<std::byte>> fields;
  std::vector<void*> places;
  for (const FieldType& field : plan_.fields)
    places.push_back(
        fields.emplace_back(static_cast<size_t>(numel(field.shape)) * size_of(field.dtype)).data());
  input.fill(first, samples, places);
  check_batch(plan_, places, first);
  for (size_t f = 0; f < fields.size(); ++f)
    copy_to_device(device_, executor_->at(program_.find(Region::Kind::input, plan_.fields[f].name)),
                   places[f], fields[f].size());
  const Graph& whole = plan_.phases.whole;
  for (const auto& scalar : whole.inputs) {
    if (scalar.kind != InputKind::scalar || scalar.name != "rng.sample") continue;
    const DType dtype = whole[scalar.value].dtype;
    std::vector<std::byte> number(size_of(dtype));
    set_int(dtype, number.data(), 0, first);
    copy_to_device(device_, executor_->at(program_.find(Region::Kind::input, scalar.name)), number.data(),
                   number.size());
  }
}

std::vector<uint64_t> Recomputation::run(const StepInput& input, int64_t micro_batch, Stream& stream,
                                         const std::function<void()>& finish) {
  fill(input, micro_batch);
  executor_->run(stream);
  finish();
  const Span answers = program_.find(Region::Kind::result, "checksums of answers");
  std::vector<uint64_t> out(static_cast<size_t>(answers.bytes) / sizeof(uint64_t));
  if (!out.empty()) copy_to_host(device_, out.data(), executor_->at(answers), answers.bytes);
  return out;
}

}  // namespace lockstep::compiler
