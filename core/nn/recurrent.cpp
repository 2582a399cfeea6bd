// LSTM: one product for the inputs of all tokens, then a step per token. The gradient is written by hand, so
// that the gradient of the recurrent weight is also one product over all tokens.
#include "core/nn/recurrent.h"

#include <cmath>

#include "core/base/error.h"
#include "core/functions/gradients.h"

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

namespace {
// Values that a token's step saves for its gradient, [sequences, H] each: the gates, the cell, and its tanh.
enum Kept { input_gate, forget_gate, new_cell, output_gate, cell, cell_tanh, kept_per_token };

// The inputs' part of the gates [tokens, sequences, 4H] and the recurrent weight [4H, H] -> the state
// [tokens, sequences, H].
Computed forward(const std::vector<Tensor>& in, Here at) {
  const Tensor weight = in[1];
  const std::vector<int64_t> gates(4, weight.size(1));
  std::vector<Tensor> states, kept;
  Tensor h, c;
  for (const Tensor& of_input : unbind(in[0], 0, at)) {
    auto part = split(h.defined() ? of_input + linear(h, weight, {}, at) : of_input, 1, gates, at);
    Tensor i = sigmoid(part[0], at), f = sigmoid(part[1], at), g = tanh(part[2], at),
           o = sigmoid(part[3], at);
    c = c.defined() ? f * c + i * g : i * g;
    Tensor t = tanh(c, at);
    h = o * t;
    states.push_back(h);
    kept.insert(kept.end(), {i, f, g, o, c, t});
  }
  Tensor all = stack(states, 0, at);
  kept.insert(kept.end(), {all, weight});
  return {{all}, kept};
}

std::vector<Tensor> backward(const std::vector<Tensor>& saved, const std::vector<Tensor>& gradients,
                             Here at) {
  const Tensor states = saved[saved.size() - 2], weight = saved.back();
  const auto of_states = unbind(gradients[0], 0, at);
  std::vector<Tensor> of_gates(of_states.size());
  Tensor of_cell;  // the gradient from the next token
  for (size_t t = of_states.size(); t-- > 0;) {
    const Tensor* kept = &saved[t * kept_per_token];
    const Tensor i = kept[input_gate], f = kept[forget_gate], g = kept[new_cell], o = kept[output_gate],
                 tc = kept[cell_tanh];
    Tensor dh = of_states[t];
    if (t + 1 < of_states.size()) dh = dh + matmul(of_gates[t + 1], weight, at);
    Tensor dc = dh * o * (1.0 - tc * tc);
    if (of_cell.defined()) dc = of_cell + dc;
    Tensor df = t ? dc * (kept - kept_per_token)[cell] * (f * (1.0 - f)) : full_like(f, 0, at);
    of_gates[t] =
        concat({dc * g * (i * (1.0 - i)), df, dc * i * (1.0 - g * g), dh * tc * (o * (1.0 - o))}, 1, at);
    of_cell = dc * f;
  }
  Tensor all = stack(of_gates, 0, at);
  const int64_t tokens = states.size(0);
  Tensor of_weight = tokens > 1 ? tensordot(slice(all, 0, 1, tokens, at), slice(states, 0, 0, tokens - 1, at),
                                            {0, 1}, {0, 1}, at)
                                : full_like(weight, 0, at);
  return {all, of_weight};
}
}  // namespace

Tensor Lstm::run(const Layer& layer, Tensor x, Here at) const {
  Tensor w_ih = layer.weight_ih.computed(x, at), w_hh = layer.weight_hh.computed(x, at),
         b_ih = layer.bias_ih.computed(x, at), b_hh = layer.bias_hh.computed(x, at);
  return custom_gradient([at](const std::vector<Tensor>& in) { return forward(in, at); },
                         [at](const std::vector<Tensor>& saved, const std::vector<Tensor>& gradients) {
                           return backward(saved, gradients, at);
                         })({linear(x, w_ih, b_ih + b_hh, at), w_hh}, at)[0];
}

Tensor Lstm::operator()(Tensor x, Here at) const {
  if (x.defined() && x.ndim() != 3)
    throw UserError(str("[lstm] ", line_of(at, path_).text(), ": the input is ", x.text(),
                        "; it must be [sequences, tokens, features]"));
  InLayer in(x, path_, at);
  x = transpose(x, 0, 1, at);  // makes the rows of a token contiguous
  for (size_t i = 0; i < layers_.size(); ++i) x = run(layers_[i], i ? dropout_(x, at) : x, at);
  return transpose(x, 0, 1, at);
}

}  // namespace lockstep
