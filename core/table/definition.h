// OpDefinition: a user-defined op; functions that validate a definition and print it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/ops/op.h"

namespace lockstep {

// A dense, row-major tensor in host memory, as a host function sees it.
struct OpTensor {
  void* data = nullptr;
  const int64_t* shape = nullptr;
  int rank = 0;
  int64_t count = 0;  // elements
  DType dtype = DType::f32;
};
// Computes every element of `out` on the calling thread. Safe from several threads at once.
using HostFunction = void (*)(const OpTensor* in, const OpTensor* out, const Attrs& attrs);

// A tensor of doubles, for formulas.
struct DoubleTensor {
  Shape shape;
  std::vector<double> values;  // row-major
};

struct OpDefinition {
  std::string name;  // "mine::gelu3": lower-case letters, digits and _, in at least two parts
  int inputs = 1;
  std::vector<std::pair<std::string, AttrType>> attrs = {};  // every node has all of them

  // Types: all inputs have one of these dtypes. Empty: floats for scalar code and expansions, f32 for cpp,
  // cuda and host; those three may list f64, integers and bool, too (not bf16, f16). Then `infer` returns the
  // output types and refuses inputs by context.fail. Unset: one output like input 0, and for "pointwise" all
  // inputs like it.
  std::vector<DType> dtypes = {};
  std::function<std::vector<TypedShape>(const InferContext&)> infer = {};
  // How it may be split over ranks, and what one call of cpp or cuda computes:
  //   "pointwise"   every dim; an element. All inputs and outputs have one shape.
  //   "rows"        every dim but the last; a row. Inputs without the leading dims of input 0 are replicated.
  //   "replicated"  no dim; all outputs.
  //   a rule, such as "...mk,...kn->...mn" (see Op::split); all outputs.
  std::string placement = "pointwise";

  // The implementation, one of these: Scalar code, fused like the built-in pointwise ops: an expression over
  // operands {0}, {1}, ... and attributes {name}. It uses the prelude's ls_* functions and operators, which
  // work on CPU vectors and on CUDA scalars. An attribute is a number of operand 0's dtype. Halves are
  // computed in f32 and rounded at the end. A literal, such as 2.0f, must be exact in every dtype.
  std::string scalar = {};
  int cost = 8;  // of `scalar`, in vector instructions, roughly
  // Other ops.
  std::function<std::vector<Tensor>(const ExpandContext&)> expand = {};
  // Source, which defines
  //   OWN_FN void run(const Tensor* in, const Tensor* out, const double* attrs, i64 item)
  // for one element, one row, or all (see placement); `item` is the index of the element or row of output 0.
  // Tensor is {void* data; int rank; const i64* shape; i64 count;}, dense and row-major; `real` is the dtype
  // of input 0; attrs are flags and numbers in the order above. Calls run in any order and concurrently, so
  // each writes only its own elements. Lines that begin with #include are moved to the top. Exceptions are
  // not allowed. NVRTC compiles `cuda` as device code.
  std::string cpp = {}, cuda = {};
  HostFunction host = nullptr;  // instead of cpp

  // The op's value in double, which check_op compares with and the reference backend runs. Give one of these,
  // or `expand` in addition to source code; a device without source code then runs the expansion. For
  // "pointwise", `formula` computes one element.
  std::function<double(std::span<const double> in, const Attrs& attrs)> formula = {};
  std::function<std::vector<DoubleTensor>(const std::vector<DoubleTensor>& in, const Attrs& attrs)>
      formula_of_all = {};

  // One gradient per input, as traced ops; an empty Tensor is none. Unset: the gradient of `expand`; without
  // `expand` a gradient through the op is refused.
  std::function<std::vector<Tensor>(const VjpContext&)> gradient = {};
  std::vector<Sample> samples = {};  // at least one
};

// Whether a name is valid for a user-defined op: lower-case letters, digits and _, in at least two parts,
// such as "mine::gelu3".
bool is_own_name(const std::string& name);
// Returns "" if the definition is complete and its names, placeholders and samples fit, else an error message
// for the user.
std::string defect_of(const OpDefinition& definition);
// The output types for these input types and attributes. Throws UserError through context.fail.
std::vector<TypedShape> types_of(const OpDefinition& definition, const InferContext& context);
std::string split_of(const OpDefinition& definition, const InferContext& context);
// The whole definition as text, which ranks compare. Traces expansion and gradient on the samples, so the row
// must be in the table.
std::string definition_text(const OpDefinition& definition, OpId op);
// The outputs for these inputs by the definition's formula, in double; empty if it has none.
std::vector<DoubleTensor> run_formula(const OpDefinition& definition, const std::vector<DoubleTensor>& in,
                                      const Attrs& attrs);
// Values of a sample's input: floats in [lo, hi], integers in [int_lo, int_hi), the same in every run.
DoubleTensor sample_values(const Sample& sample, size_t input);

}  // namespace lockstep
