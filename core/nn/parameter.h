// Spec: the record of a tensor that outlives a step. Parameter: a handle to a spec, which gives the tensor
// while a step is traced.
#pragma once

#include <memory>
#include <string>

#include "core/functions/functions.h"
#include "core/nn/float8.h"
#include "core/nn/init.h"

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
  bool trainable = false;  // a parameter that State::parameters() lists
  std::string of;          // moment: the FQN of its parameter
  SourceLine at;           // the user's line that recorded it
  // The dtype in which layers read it: State::compute_dtype for a parameter, else `dtype`.
  DType compute = DType::f32;
  // A table [rows, width] from which a step reads rows by ids, or a moment of such a table. Gradient and
  // update cover only these rows. ZeRO 3 splits it by rows over dp_shard; otherwise it is replicated.
  bool sparse = false;
  bool projection = false;  // a weight [out, in] that only projected() reads, so it can have an adapter
  bool adapter = false;     // a matrix that belongs to an adapter
  // For a weight with float8 products (State::float8): the dtype of gradients in them. bf16: the products are
  // not float8.
  DType float8_gradients = DType::bf16;
  Float8Recipe float8_recipe = Float8Recipe::tensorwise;
  // Delayed recipe: FQN of the history of its layer, f32 [kAmaxRows, amax_steps].
  std::string amax_history = {};
  int64_t amax_steps = 0;
  std::shared_ptr<const LowRank> low_rank = {};  // the adapter of a projection; null: none
};

// A handle to a spec of a State, which must outlive the handle: a parameter, a moment or a buffer.
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(const Spec* spec) : spec_(spec) {}
  explicit operator bool() const { return spec_ != nullptr; }
  const Spec& spec() const { return *spec_; }
  const std::string& fqn() const { return spec_->fqn; }
  const Shape& shape() const { return spec_->shape; }
  DType dtype() const { return spec_->dtype; }
  // The value at the start of the step, with its global shape, in the graph that `beside` belongs to.
  Tensor operator()(const Tensor& beside) const {
    const ValueId v = beside.builder()->state_input(spec_->fqn, spec_->dtype, spec_->shape);
    if (spec_->sparse) beside.builder()->sparse.insert(v);
    return {beside.builder(), v};
  }
  // The same value as layers compute with it: rounded to the compute dtype, or to that of a living Precision,
  // by a convert node (none if the dtypes are equal). The gradient passes the node back into the parameter's
  // own dtype. A sparse table is not converted: embedding() rounds the rows that it reads.
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
