// Copies a step's inputs: one copy for all scalars, one per slot and field.
#include "compiler/runtime/step_inputs.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/text.h"

namespace lockstep::compiler {

StepInputs::StepInputs(const StepPlan& plan, const LanePlan& lanes, const LiveMesh& mesh, Device& device,
                       const StepProgram& program, const Executor& memory)
    : plan_(plan), lanes_(lanes), mesh_(mesh), device_(device), slots_(lanes.slots(lanes.rank)) {
  const Graph& whole = plan.phases.whole;
  const Span block = program.find(Region::Kind::input, "scalars");
  scalars_ = memory.at(block);
  scalar_host_ = Buffer(block.bytes, device.staging());
  vote_at_ = scalar_host_.bytes() - 32;
  size_t place = 0;
  for (const auto& input : whole.inputs) {
    if (input.kind != InputKind::scalar) continue;
    if (input.name == "rng.sample")
      number_samples(whole[input.value].dtype, program.find(Region::Kind::input, input.name), memory);
    else
      scalar_at_.push_back({input.name, input.value, place});
    place += 16;
  }
  for (const auto& type : plan.fields) {
    const Span all = program.find(Region::Kind::input, type.name);
    Field& field = fields_.emplace_back();
    field.bytes = static_cast<size_t>(numel(type.shape)) * size_of(type.dtype);
    field.device = memory.at(all);
    for (auto& staged : field.staged) {
      if (!device.addressable()) staging_.emplace_back(static_cast<size_t>(all.bytes), device.staging());
      staged = device.addressable() ? field.device : staging_.back().data();
    }
  }
}

// Writes the first sample of each slot's micro-batch.
void StepInputs::number_samples(DType dtype, const Span& at, const Executor& memory) {
  std::vector<std::byte> numbers(at.bytes);
  for (int64_t j = 0; j < slots_; ++j)
    set_int(dtype, numbers.data(), j,
            std::max<int64_t>(0, lanes_.micro_batch(lanes_.rank, j)) * plan_.fields[0].shape[0]);
  copy_to_device(device_, memory.at(at), numbers.data(), numbers.size());
}

void StepInputs::send_scalars(const StepInput& input, uint64_t seed, const StepScalars& scalars,
                              Stream& stream) {
  for (const auto& [name, id, at] : scalar_at_) {
    double number = 0;
    int64_t integer = 0;
    if (name == "rng.seed")
      integer = static_cast<int64_t>(seed);
    else if (name == "rng.step")
      integer = input.step;
    else if (name.rfind("mesh.", 0) == 0)
      integer = mesh_.coordinate()[mesh_.words.dim(name.substr(5))];
    else {
      auto found = scalars.find(name);
      LS_CHECK(found != scalars.end(), "no value for the scalar ", name);
      number = found->second;
      integer = static_cast<int64_t>(number);
    }
    const DType dtype = plan_.phases.whole[id].dtype;
    if (is_float(dtype))
      set_double(dtype, scalar_host_.data() + at, 0, number);
    else
      set_int(dtype, scalar_host_.data() + at, 0, integer);
  }
  sent_for_ = input.step;
  const auto word = static_cast<int64_t>(static_cast<uint64_t>(input.replica_word) + word_of_scalars());
  std::memcpy(scalar_host_.data() + vote_at_, &input.vote, sizeof input.vote);
  const float limits[2] = {input.norm_limit, input.loss_limit};
  std::memcpy(scalar_host_.data() + vote_at_ + 8, &word, sizeof word);
  std::memcpy(scalar_host_.data() + vote_at_ + 16, limits, sizeof limits);
  const int64_t checked = input.check_replicas ? 1 : 0;
  std::memcpy(scalar_host_.data() + vote_at_ + 24, &checked, sizeof checked);
  device_.copy(scalars_, scalar_host_.data(), scalar_host_.bytes(), stream);
}

namespace {
bool alike(const std::string& name) { return name.rfind("mesh.", 0) != 0; }
}  // namespace

// Rank 0 contributes hash * (ranks - 1), and each other rank -hash, so that equal hashes sum to 0;
// replica_word() works in the same way.
uint64_t StepInputs::word_of_scalars() const {
  uint64_t hash = hash64(&sent_for_, sizeof sent_for_);
  for (const auto& [name, id, at] : scalar_at_)
    if (alike(name)) hash = hash64(scalar_host_.data() + at, size_of(plan_.phases.whole[id].dtype), hash);
  return mesh_.world->rank() == 0 ? hash * static_cast<uint64_t>(mesh_.world->size() - 1) : ~hash + 1;
}

FingerprintPart StepInputs::sent() const {
  FingerprintPart part{str("set of scalars of step ", sent_for_),
                       {{"step", str(sent_for_)}},
                       "a rate, a schedule and a decay are of the whole run: make them of what all ranks "
                       "have, not of a rank's "
                       "number, clock or draw. Nothing is saved of the step, which went by them"};
  for (const auto& [name, id, at] : scalar_at_) {
    const DType dtype = plan_.phases.whole[id].dtype;
    const std::byte* from = scalar_host_.data() + at;
    if (alike(name))
      part.lines.push_back({name, is_float(dtype)
                                      ? number_text(static_cast<float>(get_double(dtype, from, 0)))
                                      : str(get_int(dtype, from, 0))});
  }
  return part;
}

void StepInputs::send(const StepInput& input, uint64_t seed, const StepScalars& scalars, Stream& stream) {
  send_scalars(input, seed, scalars, stream);
  if (staged_for_ == input.step)
    set_in_use_ = 1 - set_in_use_, staged_for_ = -1;  // a repeated step fills the batch again
  else
    fill_batch(input.fill, set_in_use_);
  if (device_.addressable()) return;
  for (int64_t j = 0; j < slots_; ++j)
    for (const Field& field : fields_)
      device_.copy(field.slot(field.device, j), field.slot(field.staged[set_in_use_], j), field.bytes,
                   stream);
}

void StepInputs::fill_next(const StepInput& input) {
  if (!input.fill_next || device_.addressable()) return;
  try {
    fill_batch(input.fill_next, 1 - set_in_use_);
    staged_for_ = input.step + 1;
  } catch (const Error&) {
    staged_for_ = -1;
  }  // data that cannot be read is the next step's error: this one ends, and may be saved
}

void StepInputs::fill_batch(const std::function<void(int64_t, int64_t, const std::vector<void*>&)>& fill,
                            size_t set) {
  const int64_t per = plan_.fields[0].shape[0];
  for (int64_t j = 0; j < slots_; ++j) {
    // An idle slot runs on any valid batch, if it runs.
    const int64_t own = lanes_.micro_batch(lanes_.rank, j), of = own < 0 ? plan_.micro_batches - 1 : own;
    std::vector<void*> places;
    for (const Field& field : fields_) places.push_back(field.slot(field.staged[set], j));
    fill(of * per, per, places);
    check_batch(plan_, places, of * per);
  }
}

void check_batch(const StepPlan& plan, const std::vector<void*>& places, int64_t first) {
  for (const IdBound& bound : plan.ids)
    for (size_t f = 0; f < plan.fields.size(); ++f)
      if (const FieldType& field = plan.fields[f]; field.name == bound.field)
        check_ids(bound, field.dtype, field.shape, places[f], first);
}

}  // namespace lockstep::compiler
