// The layers. State enters the graph in separate statements, so that the order of inputs does not depend on
// the C++ compiler's evaluation order of arguments.
#include "core/nn/layers.h"

#include <cmath>

#include "core/base/error.h"
#include "core/functions/delayed_float8.h"
#include "core/nn/lora.h"

namespace lockstep {

InLayer::InLayer(const Tensor& x, const std::string& fqn, Here at)
    : builder_(x.builder()), line_(line_of(at, fqn)), at_line_(line_) {
  if (!builder_) throw UserError(str("[layer] ", line_.text(), ": the input is an empty Tensor"));
  before_ = std::exchange(builder_->scope, fqn);
}
InLayer::~InLayer() { builder_->scope = before_; }

namespace {
thread_local bool evaluating = false;
}  // namespace
Evaluation::Evaluation(bool on) : before_(std::exchange(evaluating, on)) {}
Evaluation::~Evaluation() { evaluating = before_; }
bool Evaluation::active() { return evaluating; }

namespace {
// x W^T + bias, in float8 if the state requests it and the sizes fit.
Tensor product(Tensor x, const Parameter& weight, const Parameter& bias, Here at) {
  Tensor w = weight.computed(x, at), b = bias ? bias.computed(x, at) : Tensor();
  const DType gradients = weight.spec().float8_gradients;
  if (!is_float8(gradients) || w.dtype() != DType::bf16 || !fits_float8(x.shape(), w.shape()))
    return linear(x, w, b, at);
  const Spec& spec = weight.spec();
  if (spec.float8_recipe != Float8Recipe::delayed)
    return linear_float8(x, w, b, gradients, spec.float8_recipe == Float8Recipe::rowwise, at);
  const Shape shape{kAmaxRows, spec.amax_steps};
  const Tensor history(x.builder(), x.builder()->state_input(spec.amax_history, DType::f32, shape));
  return delayed_linear_float8(x, w, history, b, gradients, at);
}
}  // namespace

Tensor projected(Tensor x, const Parameter& weight, const Parameter& bias, Here at) {
  Tensor y = product(x, weight, bias, at);
  const LowRank* low_rank = weight.spec().low_rank.get();
  if (!low_rank) return y;
  Tensor read = x;
  if (low_rank->dropout > 0 && !Evaluation::active()) {
    InLayer layer(x, low_rank->path + ".lora_dropout", at);
    read = dropout(x, low_rank->dropout, at);
  }
  Tensor down = low_rank->a.computed(x, at), up = low_rank->b.computed(x, at);
  return y + linear(linear(read, down, {}, at), up, {}, at) * low_rank->scale;
}

LinearInit torch_linear(int64_t in) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  return {init::uniform(-bound, bound), init::uniform(-bound, bound)};
}
Linear::Linear(Scope at, int64_t in, int64_t out, bool with_bias, const LinearInit& start, Here line)
    : weight(at.projection("weight", {out, in}, start.weight, line)), path_(at.path()) {
  if (with_bias) bias = at.parameter("bias", {out}, start.bias, line);
}
Tensor Linear::operator()(Tensor x, Here at) const {
  InLayer layer(x, path_, at);
  return projected(x, weight, bias, at);
}

Embedding::Embedding(Scope at, int64_t rows, int64_t width, Init weight_init, Here line)
    : weight(at.parameter("weight", {rows, width}, weight_init, line)), path_(at.path()) {}
Embedding::Embedding(Scope at, int64_t rows, int64_t width, const EmbeddingOptions& options, Here line)
    : weight(options.sparse ? at.sparse("weight", {rows, width}, options.weight, line)
                            : at.parameter("weight", {rows, width}, options.weight, line)),
      path_(at.path()) {}
Tensor Embedding::operator()(Tensor ids, Here at) const {
  InLayer layer(ids, path_, at);
  return embedding(weight.computed(ids, at), ids, at);
}
Tensor Embedding::logits(Tensor x, Here at) const {
  InLayer layer(x, path_, at);
  return product(x, weight, {}, at);
}

LayerNorm::LayerNorm(Scope at, int64_t width, double eps, Here line)
    : weight(at.parameter("weight", {width}, init::ones(), line)),
      bias(at.parameter("bias", {width}, init::zeros(), line)),
      path_(at.path()),
      eps_(eps) {}
Tensor LayerNorm::operator()(Tensor x, Here at) const {
  InLayer layer(x, path_, at);
  Tensor w = weight.computed(x, at), b = bias.computed(x, at);
  return layer_norm(x, w, b, eps_, at);
}

RmsNorm::RmsNorm(Scope at, int64_t width, double eps, Here line)
    : weight(at.parameter("weight", {width}, init::ones(), line)), path_(at.path()), eps_(eps) {}
Tensor RmsNorm::operator()(Tensor x, Here at) const {
  InLayer layer(x, path_, at);
  return rms_norm(x, weight.computed(x, at), eps_, at);
}

Dropout::Dropout(Scope at, double p, Here line) : path_(at.path()), p_(p) {
  if (!(p >= 0 && p < 1))
    throw UserError(str("[dropout] ", line_of(line, path_).text(), ": p is ", number_text(p),
                        "; it must be at least 0 and less than 1"));
}
Tensor Dropout::operator()(Tensor x, Here at) const {
  if (p_ == 0 || Evaluation::active()) return x;
  InLayer layer(x, path_, at);
  return dropout(x, p_, at);
}

}  // namespace lockstep
