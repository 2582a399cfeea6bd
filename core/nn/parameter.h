// Spec: what is recorded of a tensor that outlives a step. Parameter: a handle of a spec, which gives the
// tensor while a step is traced.
#pragma once

#include <memory>
#include <string>

#include "core/nn/float8.h"
#include "core/nn/init.h"
#include "core/ops/functions.h"

namespace lockstep {

enum class Role {
  parameter,  // weights of the model
  moment,     // belongs to a parameter and to an optimizer
  buffer,     // anything else that a step keeps
};
std::string_view name(Role role);

struct LowRank;  // core/nn/lora.h

struct Spec {
  std::string fqn;
  DType dtype = DType::f32;
  Shape shape;  // global
  Init init;
  Role role = Role::parameter;
  bool trainable = false;      // a parameter that State::parameters() lists
  std::string of;              // moment: the FQN of its parameter
  SourceLine at;               // the user's line that recorded it
  DType compute = DType::f32;  // what layers read it as: State::compute_dtype for a parameter, else `dtype`
  // A table [rows, width] of which a step takes rows by ids, or a moment of one: its gradient is of these
  // rows alone, and so is its update. With ZeRO 3 it is split by rows over dp_shard, else it is whole.
  bool sparse = false;
  bool projection = false;  // a weight [out, in] that projected() alone reads: an adapter may stand beside it
  bool adapter = false;     // a matrix of an adapter
  // Of a weight whose products are in float8 (State::float8): the dtype of gradients in them. bf16: none is.
  DType float8_gradients = DType::bf16;
  Float8Recipe float8_recipe = Float8Recipe::tensorwise;
  std::string amax_history =
      {};  // the FQN of its layer's, f32 [kAmaxRows, amax_steps], of the delayed recipe
  int64_t amax_steps = 0;
  std::shared_ptr<const LowRank> low_rank = {};  // the adapter of a projection; null: none
};

// A handle of a spec of a State, which must outlive it. Parameters, moments and buffers alike.
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(const Spec* spec) : spec_(spec) {}
  explicit operator bool() const { return spec_ != nullptr; }
  const Spec& spec() const { return *spec_; }
  const std::string& fqn() const { return spec_->fqn; }
  const Shape& shape() const { return spec_->shape; }
  DType dtype() const { return spec_->dtype; }
  // The value at the start of the step, in the graph that `beside` belongs to: global shape.
  Tensor operator()(const Tensor& beside) const {
    const ValueId v = beside.builder()->state_input(spec_->fqn, spec_->dtype, spec_->shape);
    if (spec_->sparse) beside.builder()->sparse.insert(v);
    return {beside.builder(), v};
  }
  // The same value as a layer computes with it: rounded to the compute dtype by a convert node (none where
  // that is the dtype itself), or as a Precision that lives says. Its gradient comes back through the node,
  // in the parameter's own dtype. A sparse table is given as it is: embedding() rounds what it takes of it.
  Tensor computed(const Tensor& beside, Here at = Here::current()) const {
    if (spec_->sparse) return (*this)(beside);
    const bool weight = spec_->role == Role::parameter && spec_->dtype == DType::f32;
    return convert((*this)(beside),
                   weight ? beside.builder()->precision.value_or(spec_->compute) : spec_->compute, at);
  }

 private:
  const Spec* spec_ = nullptr;
};

}  // namespace lockstep
