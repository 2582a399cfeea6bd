// The table of the precision policy, and the conversion of inputs.
#include "core/ops/precision.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep {

namespace {
struct Row {
  std::string_view name;  // of an op, or of a function of several
  Computes how;
  size_t inputs = -1;  // the number of leading inputs to convert
};
constexpr Row kTable[] = {
    // Products: the policy rounds the operands; the sums inside are f32.
    {"convolution", Computes::policy},
    {"convolution_grad_input", Computes::policy},
    {"convolution_transposed", Computes::policy},
    {"dot", Computes::policy},
    {"einsum", Computes::policy},
    {"embedding", Computes::policy},
    {"linear", Computes::policy},
    {"linear_float8", Computes::policy},
    {"matmul", Computes::policy},
    {"sdpa", Computes::policy, 3},  // a bias is added to scores in f32
    {"tensordot", Computes::policy},
    // Functions that overflow or lose digits in 16 bits.
    {"acos", Computes::wide},
    {"asin", Computes::wide},
    {"cosh", Computes::wide},
    {"cosine_similarity", Computes::wide},
    {"cumprod", Computes::wide},
    {"cumsum", Computes::wide},
    {"erfinv", Computes::wide},
    {"exp", Computes::wide},
    {"expm1", Computes::wide},
    {"log", Computes::wide},
    {"log10", Computes::wide},
    {"log1p", Computes::wide},
    {"log2", Computes::wide},
    {"log_softmax", Computes::wide},
    {"logsumexp", Computes::wide},
    {"mean", Computes::wide},
    {"norm", Computes::wide},
    {"normalize", Computes::wide},
    {"pairwise_distance", Computes::wide},
    {"pow", Computes::wide},
    {"prod", Computes::wide},
    {"reciprocal", Computes::wide},
    {"rsqrt", Computes::wide},
    {"sinh", Computes::wide},
    {"softmax", Computes::wide},
    {"softplus", Computes::wide},
    {"stddev", Computes::wide},
    {"sum", Computes::wide},
    {"tan", Computes::wide},
    {"var", Computes::wide},
    // Statistics over many elements, with one rounding at the end.
    {"layer_norm", Computes::inside},
    {"rms_norm", Computes::inside},
    // One tensor from several. Pointwise ops do the same and need no row here.
    {"concat", Computes::widest},
    {"floor_divide", Computes::widest},
    {"scatter", Computes::widest},
    {"scatter_add", Computes::widest},
};

bool follows(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

// The dtype of input i under `policy`; all inputs have one builder.
DType wanted(Computes how, DType policy, const std::vector<Tensor>& inputs, size_t i) {
  const DType given = inputs[i].dtype();
  switch (how) {
    case Computes::as_given:
      return given;
    case Computes::policy:
      return policy;
    case Computes::wide:
      return DType::f32;
    case Computes::inside: {
      const bool alike = std::all_of(inputs.begin(), inputs.end(), [&](const Tensor& x) {
        return !x.defined() || x.dtype() == inputs[0].dtype();
      });
      return alike || i == 0 ? given : DType::f32;
    }
    case Computes::widest: {
      const bool alike = std::all_of(inputs.begin(), inputs.end(), [&](const Tensor& x) {
        return !x.defined() || !follows(x.dtype()) || x.dtype() == given;
      });
      return alike ? given : DType::f32;
    }
  }
  return given;
}

Row row_of(std::string_view name) {
  static const std::map<std::string_view, Row> by_name = [] {
    std::map<std::string_view, Row> out;
    for (const Row& row : kTable) out.emplace(row.name, row);
    return out;
  }();
  if (const auto found = by_name.find(name); found != by_name.end()) return found->second;
  const Op* op = find_op(intern(name));
  return {name, op && op->kind == OpKind::pointwise ? Computes::widest : Computes::as_given};
}
}  // namespace

Computes computes(std::string_view name) { return row_of(name).how; }

std::string_view word(Computes how) {
  switch (how) {
    case Computes::as_given:
      return "as given";
    case Computes::policy:
      return "policy";
    case Computes::wide:
      return "f32";
    case Computes::inside:
      return "f32 inside";
    case Computes::widest:
      return "widest";
  }
  return "";
}

bool has_policy(const Tensor& x) { return x.defined() && x.builder()->precision.has_value(); }

std::vector<Tensor> under_policy(std::string_view name, std::vector<Tensor> inputs, const SourceLine& at) {
  const auto first = std::find_if(inputs.begin(), inputs.end(), [](const Tensor& x) { return x.defined(); });
  if (first == inputs.end() || !has_policy(*first)) return inputs;
  const auto builder = first->builder();
  for (const Tensor& x : inputs)
    if (x.defined() && (x.builder() != builder || x.dtype() == DType::f64)) return inputs;
  const Row row = row_of(name);
  const std::vector<Tensor> given = inputs;
  for (size_t i = 0; i < std::min(inputs.size(), row.inputs); ++i) {
    if (!given[i].defined() || !follows(given[i].dtype()) || builder->sparse.count(given[i].id())) continue;
    const DType to = wanted(row.how, *builder->precision, given, i);
    if (to != given[i].dtype())
      inputs[i] = {builder, builder->graph.append(ops::convert, {given[i].id()}, {{"dtype", to}},
                                                  {{to, given[i].shape()}}, at)[0]};
  }
  return inputs;
}

Precision::Precision(const Tensor& x, DType dtype, Here at) : builder_(x.builder()) {
  auto line = [&] { return line_of(at).text(); };
  if (!builder_) throw UserError(str("[precision] ", line(), ": the tensor is empty; pass one of the step"));
  if (!follows(dtype))
    throw UserError(str("[precision] ", line(), ": a policy of ", name(dtype), "; choose f32, bf16 or f16"));
  before_ = builder_->precision;
  if (dtype != DType::f32 || before_) builder_->precision = dtype;
}
Precision::~Precision() { builder_->precision = before_; }

}  // namespace lockstep
