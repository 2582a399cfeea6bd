// One copy for all scalars, one per slot and field.
#include "compiler/runtime/step_inputs.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace lockstep {

StepInputs::StepInputs(const StepPlan& plan, const LanePlan& lanes, const LiveMesh& mesh, Device& device,
                       PerValue<void*>& at)
    : plan_(plan), lanes_(lanes), mesh_(mesh), device_(device) {
  const Graph& whole = plan.phases.whole;
  const int64_t slots = lanes.slots(lanes.rank);
  size_t bytes = 0;
  for (const auto& input : whole.inputs) bytes += input.kind == InputKind::scalar ? 16 : 0;
  scalar_block_ = Buffer(bytes + 32, device.memory());
  scalar_host_ = Buffer(bytes + 32, device.staging());
  vote_at_ = bytes;
  size_t place = 0;
  for (const auto& input : whole.inputs) {
    if (input.kind != InputKind::scalar) continue;
    at[input.value] = scalar_block_.data() + place;
    if (input.name == "rng.sample") {
      sample_ = input.value;
      const DType dtype = whole[input.value].dtype;
      samples_ = Buffer(std::max<size_t>(1, static_cast<size_t>(slots)) * size_of(dtype), device.memory());
      std::vector<std::byte> numbers(samples_.bytes());
      for (int64_t j = 0; j < slots; ++j)
        set_int(dtype, numbers.data(), j,
                std::max<int64_t>(0, lanes.micro_batch(lanes.rank, j)) * plan.fields[0].shape[0]);
      copy_to_device(device, samples_.data(), numbers.data(), numbers.size());
    } else {
      scalar_at_.push_back({input.name, input.value, place});
    }
    place += 16;
  }
  for (int64_t j = 0; j < slots; ++j) {
    batch_.emplace_back();
    for (auto& set : staged_) set.emplace_back();
    for (const auto& field : plan.fields) {
      const size_t size = numel(field.shape) * size_of(field.dtype);
      batch_.back().emplace_back(size, device.memory());
      for (auto& set : staged_)
        set.back().push_back(device.addressable() ? batch_.back().back() : Buffer(size, device.staging()));
    }
  }
}

void StepInputs::send(const StepInput& input, uint64_t seed, const Step::Scalars& scalars, Stream& stream) {
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
  std::memcpy(scalar_host_.data() + vote_at_, &input.vote, sizeof input.vote);
  const float limits[2] = {input.norm_limit, input.loss_limit};
  std::memcpy(scalar_host_.data() + vote_at_ + 8, &input.replica_word, sizeof input.replica_word);
  std::memcpy(scalar_host_.data() + vote_at_ + 16, limits, sizeof limits);
  const int64_t checked = input.check_replicas ? 1 : 0;
  std::memcpy(scalar_host_.data() + vote_at_ + 24, &checked, sizeof checked);
  device_.copy(scalar_block_.data(), scalar_host_.data(), scalar_host_.bytes(), stream);
  if (staged_for_ == input.step)
    set_in_use_ = 1 - set_in_use_;
  else
    fill_batch(input.fill, set_in_use_);
  for (size_t j = 0; j < batch_.size(); ++j)
    for (size_t f = 0; f < batch_[j].size(); ++f) {
      const Buffer& host = staged_[set_in_use_][j][f];
      device_.copy(batch_[j][f].data(), host.data(), host.bytes(), stream);
    }
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
  for (size_t j = 0; j < staged_[set].size(); ++j) {
    // An idle slot runs on any valid batch, if at all.
    const int64_t own = lanes_.micro_batch(lanes_.rank, static_cast<int64_t>(j)),
                  of = own < 0 ? plan_.micro_batches - 1 : own;
    std::vector<void*> fields;
    for (auto& buffer : staged_[set][j]) fields.push_back(buffer.data());
    fill(of * per, per, fields);
  }
}

void* StepInputs::field(int64_t slot, const std::string& name) {
  size_t f = 0;
  while (f < plan_.fields.size() && plan_.fields[f].name != name) ++f;
  LS_CHECK(f < plan_.fields.size(), "no batch field ", name);
  return batch_[slot][f].data();
}

void* StepInputs::sample(ValueId value, int64_t slot) {
  if (sample_ == kNoValue || value != sample_) return nullptr;
  return samples_.data() + slot * size_of(plan_.phases.whole[sample_].dtype);
}

}  // namespace lockstep
