// An op of one's own as a program defines it, and what is asked of a definition: is it whole, and what is it
// as text.
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
  std::string name;  // "mine::gelu3": small letters, digits and _, in at least two parts
  int inputs = 1;
  std::vector<std::pair<std::string, AttrType>> attrs = {};  // every node has all of them

  // Types: inputs of one of these dtypes; empty: floats for scalar code and expansions, f32 for cpp, cuda and
  // host, which may name f64, integers and bool, too (not bf16, f16). Then `infer` gives the output types, by
  // context.fail what does not fit; unset: one output like input 0, and for "pointwise" all inputs like it.
  std::vector<DType> dtypes = {};
  std::function<std::vector<TypedShape>(const InferContext&)> infer = {};
  // How it may be split over ranks, and what one call of cpp or cuda computes:
  //   "pointwise"   every dim; an element. All inputs and outputs have one shape.
  //   "rows"        every dim but the last; a row. Inputs without the leading dims of input 0 are replicated.
  //   "replicated"  no dim; all outputs.
  //   a rule, such as "...mk,...kn->...mn" (see Op::split); all outputs.
  std::string placement = "pointwise";

  // What it runs as, one of these:
  // Scalar code, fused like the built-in pointwise ops: an expression over {0}, {1}, ... and {attribute} (a
  // number of operand 0's dtype; f32 for halves, which are rounded at the end; a literal is exact in every
  // dtype, as 2.0f) in the prelude's ls_* functions and operators, on vectors of the CPU and on scalars of
  // CUDA alike.
  std::string scalar = {};
  int cost = 8;  // of `scalar`: about vector instructions
  // Other ops.
  std::function<std::vector<Tensor>(const ExpandContext&)> expand = {};
  // Source, which defines
  //   OWN_FN void run(const Tensor* in, const Tensor* out, const double* attrs, i64 item)
  // for one element, row, or all (see placement): item counts elements, or rows, of output 0. Tensor is
  // {void* data; int rank; const i64* shape; i64 count;}, dense and row-major; `real` is the dtype of input
  // 0; attrs are flags and numbers in the order above. Calls run in any order and at the same time: one
  // writes its own elements alone. Lines that begin with #include are put first. Without exceptions. cuda:
  // compiled by NVRTC, as code of the device.
  std::string cpp = {}, cuda = {};
  HostFunction host = nullptr;  // instead of cpp

  // What it computes, in double: what check_op compares with, and what the reference backend runs. One of
  // these, or `expand` beside the code, which is also what runs where a device has none. pointwise: of one
  // element.
  std::function<double(std::span<const double> in, const Attrs& attrs)> formula = {};
  std::function<std::vector<DoubleTensor>(const std::vector<DoubleTensor>& in, const Attrs& attrs)>
      formula_of_all = {};

  // One gradient per input, as traced ops; an empty Tensor is none. Unset: that of `expand`; without it the
  // op is refused where a gradient goes through it.
  std::function<std::vector<Tensor>(const VjpContext&)> gradient = {};
  std::vector<Sample> samples = {};  // at least one
};

// Whether a name is one of one's own: small letters, digits and _, in at least two parts, as "mine::gelu3".
bool is_own_name(const std::string& name);
// "" when nothing is missing and names, placeholders and samples fit; else what is wrong, in words for the
// user.
std::string defect_of(const OpDefinition& definition);
// The types that inputs of these types and attributes give; UserError through context.fail.
std::vector<TypedShape> types_of(const OpDefinition& definition, const InferContext& context);
std::string split_of(const OpDefinition& definition, const InferContext& context);
// All of it as text, which two ranks compare. Traces expansion and gradient on the samples: the row is in the
// table.
std::string definition_text(const OpDefinition& definition, OpId op);
// The outputs for these inputs, in double, by its formula; empty where it has none.
std::vector<DoubleTensor> run_formula(const OpDefinition& definition, const std::vector<DoubleTensor>& in,
                                      const Attrs& attrs);
// Values of a sample's input: floats in [lo, hi], integers in [int_lo, int_hi), the same in every run.
DoubleTensor sample_values(const Sample& sample, size_t input);

}  // namespace lockstep
