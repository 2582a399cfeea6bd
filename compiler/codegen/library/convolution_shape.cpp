// Shapes of convolutions, from nodes and operands.
#include "compiler/codegen/library/convolution_shape.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep::compiler {

namespace {
std::vector<int64_t> tail(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }
std::string by(const std::vector<int64_t>& list) {
  std::vector<std::string> parts;
  for (int64_t n : list) parts.push_back(str(n));
  return join(parts, "x");
}
bool lies_last(const Operand& operand) {
  const auto strides = channels_last_strides(operand.shape);
  for (size_t d = 0; d < strides.size(); ++d)
    if (operand.shape[d] > 1 && operand.strides[d] != strides[d]) return false;
  return true;
}
// Whether the tensors are channels last: if one is not in the order of its dims, all must be.
bool lie_last(const Node& node, const std::vector<Operand>& in, const Operand& out) {
  std::vector<const Operand*> tensors{&in[0], &in[1], &out};
  auto all = [&](auto holds) {
    return std::all_of(tensors.begin(), tensors.end(), [&](const Operand* one) { return holds(*one); });
  };
  if (all(is_dense)) return false;
  LS_CHECK(all(lies_last), node.op, " reads and writes dense tensors, all channels first or all last");
  return true;
}
}  // namespace

std::vector<int64_t> channels_last_strides(const Shape& shape) {
  std::vector<int64_t> out(shape.size(), 1);
  int64_t stride = shape[1];
  for (size_t d = shape.size(); d-- > 2;) out[d] = stride, stride *= shape[d];
  out[0] = stride;
  return out;
}

ConvolutionShape convolution_shape(const Node& node, const std::vector<Operand>& in,
                                   const std::vector<Operand>& out) {
  using Which = ConvolutionShape::Which;
  ConvolutionShape s;
  s.which = node.op == ops::convolution              ? Which::forward
            : node.op == ops::convolution_grad_input ? Which::input
                                                     : Which::weight;
  const Operand& x = s.which == Which::input ? out[0] : in[0];
  const Operand& w = s.which == Which::weight ? out[0] : in[1];
  const Operand& y = s.which == Which::forward ? out[0] : s.which == Which::input ? in[0] : in[1];
  s.dtype = x.dtype;
  s.bias = in.size() == 3;
  s.groups = node.attrs.integer("groups");
  s.n = x.shape[0], s.channels = x.shape[1], s.outputs = y.shape[1];
  s.spatial = tail(x.shape), s.sizes = tail(w.shape), s.counts = tail(y.shape);
  s.stride = node.attrs.list("stride"), s.dilation = node.attrs.list("dilation");
  s.lo = node.attrs.list("lo"), s.hi = node.attrs.list("hi");
  s.channels_last = lie_last(node, in, out[0]);
  return s;
}
ConvolutionShape convolution_shape(const Graph& graph, const Node& node) {
  std::vector<Operand> in;
  for (ValueId v : node.inputs) in.push_back(dense_operand(graph[v].dtype, graph[v].shape));
  const Value& made = graph[node.outputs[0]];
  return convolution_shape(node, in, {dense_operand(made.dtype, made.shape)});
}

std::string convolution_text(const ConvolutionShape& s) {
  using Which = ConvolutionShape::Which;
  std::string text =
      str(s.which == Which::forward ? "convolution"
          : s.which == Which::input ? "convolution_grad_input"
                                    : "convolution_grad_weight",
          " ", name(s.dtype), " n=", s.n, " ", s.channels, ":", by(s.spatial), " -> ", s.outputs, ":",
          by(s.counts), " k=", by(s.sizes), " s=", by(s.stride), " p=", by(s.lo), "+", by(s.hi));
  if (s.dilation != std::vector<int64_t>(s.dims(), 1)) text += str(" d=", by(s.dilation));
  if (s.channels_last) text += " channels last";
  if (s.groups != 1) text += str(" g=", s.groups);
  return text + (s.bias ? " +bias" : "");
}
double convolution_flops(const ConvolutionShape& s) {
  return 2.0 * static_cast<double>(s.n * s.windows()) * static_cast<double>(s.weights());
}

}  // namespace lockstep::compiler
