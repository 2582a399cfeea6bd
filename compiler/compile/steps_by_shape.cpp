// Steps of one function by the shape of their batch.
#include "compiler/compile/steps_by_shape.h"

#include <algorithm>
#include <utility>

#include "compiler/compile/micro_batch.h"
#include "compiler/partition/piece_count.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/mesh/together.h"

namespace lockstep::compiler {

StepsByShape::StepsByShape(State& state, std::vector<BatchField> batch, const BatchShape& shape,
                           StepFunction function, CompileOptions options, size_t most, Here at)
    : state_(state),
      batch_(std::move(batch)),
      shape_(shape),
      function_(std::move(function)),
      options_(std::move(options)),
      most_(most) {
  if (most_ < 1)
    throw UserError(str("[step] ", line_of(at).text(), ": at most ", most_,
                        " shapes may be kept, and a step has at least 1"));
  first_.first = shape_.global;
  for (const BatchField& field : batch_)
    first_.second.emplace_back(field.shape.begin() + (field.shape.empty() ? 0 : 1), field.shape.end());
  by_default_ = shape_.micro == 0;
  if (by_default_) shape_.micro = micro_batch_of(first_), batch_ = fields_of(first_, shape_.micro);
  compile_first();
}

Step& StepsByShape::compile_first() {
  add(first_, compile(state_, batch_, shape_, function_, options_));
  return steps_.at(first_).step;
}
Step& StepsByShape::first() {
  const auto found = steps_.find(first_);
  return found == steps_.end() ? compile_first() : found->second.step;
}

void StepsByShape::add(const Key& key, Step step) {
  CountedScalars counted(step.plan(), state_);
  steps_.emplace(key, Compiled{std::move(step), std::move(counted)});
}

// Destroys the first step last, because the others use its memory.
StepsByShape::~StepsByShape() { drop(); }
void StepsByShape::drop() {
  const auto lender = steps_.extract(first_);
  steps_.clear();
}

std::vector<BatchField> StepsByShape::fields_of(const Key& key, int64_t micro) const {
  std::vector<BatchField> out = batch_;
  for (size_t f = 0; f < out.size(); ++f) {
    out[f].shape = key.second[f];
    out[f].shape.insert(out[f].shape.begin(), micro);
  }
  return out;
}

int64_t StepsByShape::micro_batch_of(const Key& key) const {
  if (!by_default_) return largest_divisor(key.first, shape_.micro);
  std::vector<BatchField> sample = batch_;
  for (size_t f = 0; f < sample.size(); ++f) sample[f].shape = key.second[f];
  return together(*state_.mesh().world,
                  [&] { return default_micro_batch(state_, sample, key.first, function_); });
}

std::string StepsByShape::words(const Key& key) const {
  std::vector<std::string> out;
  for (const BatchField& field : fields_of(key, key.first))
    out.push_back(str(field.name, " ", shape_text(field.dtype, field.shape)));
  return join(out, ", ");
}

Step& StepsByShape::at(int64_t global, const std::vector<Shape>& samples, Here at) {
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[step] ", line_of(at).text(), ": ", what));
  };
  if (global < 1) refuse(str("a batch of ", global, " samples; a step needs at least 1"));
  if (samples.size() != batch_.size())
    refuse(str("shapes of ", samples.size(), " fields are given, and the step reads ", batch_.size()));
  for (size_t f = 0; f < samples.size(); ++f)
    if (samples[f].size() != first_.second[f].size())
      refuse(str("a sample of field \"", batch_[f].name, "\" is ", shape_text(batch_[f].dtype, samples[f]),
                 ", and the step was written for ", shape_text(batch_[f].dtype, first_.second[f]),
                 ": sizes may differ from batch to batch, not the number of dims"));
  const Key key{global, samples};
  if (const auto found = steps_.find(key); found != steps_.end()) {
    if (found->second.counted.alike()) return found->second.step;
    drop();  // before others allocate as much memory
  }
  Step& first_step = first();
  if (key == first_) return first_step;
  if (steps_.size() >= most_)
    refuse(str("a batch of ", words(key), " is shape ", steps_.size() + 1, " of this step, and at most ",
               most_, " are kept, since each is compiled separately and takes memory (the first is ",
               words(first_), "); pad batches to fewer shapes, or raise max_shapes"));
  return compiled(key);
}

// Uses the first field that has tokens, as in cut_products.
int64_t StepsByShape::pieces_of(const Key& key, int64_t micro) const {
  const Mesh& mesh = state_.mesh().words;
  const int64_t shards = options_.sequence_parallel ? mesh.size("tp") : 1;
  if (options_.tp_pieces == kPiecesByRates) return kPiecesByRates;
  for (const Shape& sample : key.second)
    if (!sample.empty()) return cut_into_most(options_.tp_pieces, micro, sample[0], shards).pieces;
  return options_.tp_pieces;
}

Step& StepsByShape::compiled(const Key& key) {
  BatchShape shape = shape_;
  shape.global = key.first;
  shape.micro = micro_batch_of(key);
  if (shape.lanes && (shape.global / shape.micro) % shape.lanes) shape.lanes = 0;
  CompileOptions options = options_;
  options.tp_pieces = pieces_of(key, shape.micro);
  if (state_.mesh().world->rank() == 0)
    logs::info(str("the step is compiled for a batch of ", words(key), ", in micro-batches of ", shape.micro,
                   ": shape ", steps_.size() + 1, " of at most ", most_));
  add(key, compile(state_, fields_of(key, shape.micro), shape, function_, options, &first()));
  return steps_.at(key).step;
}

}  // namespace lockstep::compiler
