// Precision: a policy like torch.autocast, which decides in which dtype each traced op computes, for any
// float dtypes of its inputs. Without a policy, tracing is strictly typed: inputs of several dtypes are
// refused. The table is in precision.cpp, and apply() reads it.
#pragma once

#include <string_view>
#include <vector>

#include "core/ops/tensor.h"

namespace lockstep {

// How float inputs are converted under a policy. f64 is never converted, nor are other inputs of a call that
// has f64.
enum class Computes {
  as_given,  // nothing
  policy,    // contractions: inputs are rounded to the policy's dtype
  wide,      // sums, exponentials, logarithms: bf16 and f16 are widened to f32, the dtype of the result
  inside,    // norms: statistics are f32, the result has the dtype of input 0; others that differ become f32
  widest,    // pointwise: all take the widest of their dtypes
};
// The table's entry for an op or function of this name; for others, `widest` for pointwise ops, else
// `as_given`.
Computes computes(std::string_view name);
std::string_view word(Computes how);

// Converts `inputs` as the op or function `name` takes them under the policy of their graph, by nodes with
// the line `at`. Unchanged without a policy. Empty tensors stay empty.
std::vector<Tensor> under_policy(std::string_view name, std::vector<Tensor> inputs, const SourceLine& at);
bool has_policy(const Tensor& x);  // of the graph that x belongs to; false for an empty tensor

// While an object lives, contractions of the graph that `x` belongs to compute in `dtype`. Like
// torch.autocast(enabled=False), f32 is for a part of a model that must not be rounded; layers then read f32
// parameters, too. f32 changes nothing without a policy. Throws UserError unless f32, bf16 or f16.
class Precision {
 public:
  Precision(const Tensor& x, DType dtype, Here at = Here::current());
  ~Precision();
  Precision(const Precision&) = delete;

 private:
  std::shared_ptr<Builder> builder_;
  std::optional<DType> before_;
};

}  // namespace lockstep
