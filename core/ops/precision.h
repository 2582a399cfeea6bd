// Precision: a policy for what is traced, as torch.autocast: in which dtype each op computes, whatever float
// dtype its inputs have. What is traced without a policy is typed strictly: inputs of several dtypes are
// refused. The table is in precision.cpp, and apply() reads it.
#pragma once

#include <string_view>
#include <vector>

#include "core/ops/tensor.h"

namespace lockstep {

// What becomes of float inputs under a policy. f64 stays, and so do inputs beside it.
enum class Computes {
  as_given,  // nothing
  policy,    // contractions: all are rounded to the policy's dtype
  wide,      // sums, exponentials, logarithms: bf16 and f16 are widened to f32, in which the result stays
  inside,    // norms: statistics are f32, the result has the dtype of input 0; others that differ become f32
  widest,    // by element: all take the widest of their dtypes
};
// Of an op or a function of the table by its name; of others: widest for what is pointwise, else as_given.
Computes computes(std::string_view name);
std::string_view word(Computes how);

// `inputs` as the op or function `name` takes them under the policy of their graph: converted by nodes of the
// line `at`; as they are without a policy. Empty tensors stay empty.
std::vector<Tensor> under_policy(std::string_view name, std::vector<Tensor> inputs, const SourceLine& at);
bool has_policy(const Tensor& x);  // of the graph that x belongs to; false for an empty tensor

// While it lives, contractions of the graph that `x` belongs to compute in `dtype`: f32 is what
// torch.autocast(enabled=False) is for, a part of a model that must not be rounded. Parameters that layers
// read are f32 then, too. f32 changes nothing where there is no policy. UserError unless f32, bf16 or f16.
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
