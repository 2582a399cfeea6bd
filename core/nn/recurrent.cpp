// LSTM: inputs of all tokens in one product, then a step per token.
#include "core/nn/recurrent.h"

#include <cmath>

#include "core/base/error.h"

namespace lockstep {

Lstm::Lstm(const Scope& at, int64_t in, int64_t hidden, int64_t depth, double dropout, Here line)
    : path_(at.path()), hidden_(hidden), dropout_(at / "dropout", dropout, line) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const Init start = init::uniform(-bound, bound);
  for (int64_t i = 0; i < depth; ++i)
    layers_.push_back({at.parameter(str("weight_ih_l", i), {4 * hidden, i ? hidden : in}, start, line),
                       at.parameter(str("weight_hh_l", i), {4 * hidden, hidden}, start, line),
                       at.parameter(str("bias_ih_l", i), {4 * hidden}, start, line),
                       at.parameter(str("bias_hh_l", i), {4 * hidden}, start, line)});
}

Tensor Lstm::run(const Layer& layer, Tensor x, Here at) const {
  Tensor w_ih = layer.weight_ih.computed(x, at), w_hh = layer.weight_hh.computed(x, at),
         b_ih = layer.bias_ih.computed(x, at), b_hh = layer.bias_hh.computed(x, at);
  const std::vector<int64_t> gates(4, hidden_);
  std::vector<Tensor> of_input = unbind(linear(x, w_ih, b_ih + b_hh, at), 1, at), out;
  Tensor h, c;
  for (const Tensor& now : of_input) {
    auto part = split(h.defined() ? now + linear(h, w_hh, {}, at) : now, 1, gates, at);
    Tensor fresh = sigmoid(part[0], at) * tanh(part[2], at);
    c = c.defined() ? sigmoid(part[1], at) * c + fresh : fresh;
    h = sigmoid(part[3], at) * tanh(c, at);
    out.push_back(h);
  }
  return stack(out, 1, at);
}

Tensor Lstm::operator()(Tensor x, Here at) const {
  if (x.defined() && x.ndim() != 3)
    throw UserError(str("[lstm] ", line_of(at, path_).text(), ": the input is ", x.text(),
                        "; it must be [sequences, tokens, features]"));
  InLayer in(x, path_, at);
  for (size_t i = 0; i < layers_.size(); ++i) x = run(layers_[i], i ? dropout_(x, at) : x, at);
  return x;
}

}  // namespace lockstep
