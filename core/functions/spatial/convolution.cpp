// The functions of convolution.h: they expand lists of one number to all dims, pad non-zero borders before
// the node, and add the bias of a transposed convolution after it.
#include <algorithm>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/functions/spatial/convolution.h"
#include "core/functions/spatial/window.h"
#include "core/ops/checks.h"
#include "core/ops/precision.h"

namespace lockstep {

using functions::refuse;

namespace {
using List = std::vector<int64_t>;

SourceLine checked_line(std::string_view op, const std::vector<std::pair<Tensor, std::string_view>>& given,
                        Here at) {
  for (const auto& [tensor, role] : given)
    if (!tensor.defined()) refuse(op, line_of(at), str("the ", role, " is an empty Tensor"));
  SourceLine line = source_line(*given[0].first.builder(), at);
  const Tensor& x = given[0].first;
  if (x.ndim() < 3 || x.ndim() > 5)
    refuse(op, line, str("input is ", x.text(), ", needs 3 to 5 dims: [N, C, 1 to 3 spatial dims]"));
  return line;
}
Attrs attrs(List stride, List lo, List hi, List dilation, int64_t groups) {
  return {{"stride", std::move(stride)},
          {"lo", std::move(lo)},
          {"hi", std::move(hi)},
          {"dilation", std::move(dilation)},
          {"groups", groups}};
}

}  // namespace

Tensor convolution(Tensor x, Tensor weight, Tensor bias, const ConvolutionOptions& how, Here at) {
  const SourceLine line = checked_line("convolution", {{x, "input"}, {weight, "weight"}}, at);
  const size_t dims = x.ndim() - 2;
  auto all = [&](const List& list, std::string_view role) {
    return per_dim("convolution", list, dims, role, line);
  };
  List padding = all(how.padding, "padding");
  if (how.mode) {
    List all_dims = padding;
    all_dims.insert(all_dims.begin(), 2, 0);
    x = pad(x, all_dims, all_dims, *how.mode, at);
    padding.assign(dims, 0);
  }
  std::vector<Tensor> in{x, weight};
  if (bias.defined()) in.push_back(bias);
  return apply1(ops::convolution, in,
                attrs(all(how.stride, "stride"), padding, padding, all(how.dilation, "dilation"), how.groups),
                at);
}

Tensor convolution_transposed(Tensor x, Tensor weight, Tensor bias, const TransposedOptions& how, Here at) {
  constexpr std::string_view op = "convolution_transposed";
  const SourceLine line = checked_line(op, {{x, "input"}, {weight, "weight"}}, at);
  const auto taken = under_policy(op, {x, weight, bias}, line);
  x = taken[0], weight = taken[1], bias = taken[2];
  const size_t dims = x.ndim() - 2;
  if (weight.ndim() != x.ndim())
    refuse(op, line,
           str("input is ", x.text(), ", weight is ", weight.text(),
               ": both have as many spatial dims; the weight is [I, O / groups, k...]"));
  auto all = [&](const List& list, std::string_view role) { return per_dim(op, list, dims, role, line); };
  const List stride = all(how.stride, "stride"), padding = all(how.padding, "padding"),
             dilation = all(how.dilation, "dilation"), more = all(how.output_padding, "output padding");
  List spatial;
  for (size_t d = 0; d < dims; ++d) {
    if (stride[d] < 1 || dilation[d] < 1)
      refuse(op, line, str("stride ", stride, ", dilation ", dilation, ": each is 1 or more"));
    if (more[d] < 0 || more[d] >= std::max(stride[d], dilation[d]))
      refuse(op, line,
             str("output padding ", more, " with stride ", stride, " and dilation ", dilation,
                 ": along each dim it is 0 or more and less than one of them"));
    const int64_t k = weight.size(static_cast<int>(d) + 2);
    spatial.push_back((x.size(static_cast<int>(d) + 2) - 1) * stride[d] - 2 * padding[d] +
                      dilation[d] * (k - 1) + more[d] + 1);
    if (spatial.back() < 1)
      refuse(
          op, line,
          str("input is ", x.text(), ", weight is ", weight.text(), ", padding ", padding,
              ": the output would have ", spatial.back(), " elements along spatial dim ", d, "; pad less"));
  }
  // Output padding of at least the stride leaves room for another window, which the transposed node would
  // count. So the padding at the end is reduced until only the input's windows remain.
  List hi = padding;
  for (size_t d = 0; d < dims; ++d) hi[d] -= more[d] >= stride[d] ? more[d] - stride[d] + 1 : 0;
  if (std::any_of(hi.begin(), hi.end(), [](int64_t n) { return n < 0; }))
    refuse(op, line,
           str("output padding ", more, " with stride ", stride, " and padding ", padding,
               ": output padding of the stride or more needs as much padding; choose a larger one"));
  Attrs node = attrs(stride, padding, hi, dilation, how.groups);
  node.set("spatial", spatial);
  Tensor y = apply1(ops::convolution_grad_input, {x, weight}, node, at);
  if (!bias.defined()) return y;
  if (bias.shape() != Shape{y.size(1)} || bias.dtype() != y.dtype())
    refuse(op, line,
           str("bias is ", bias.text(), ", needs ", shape_text(y.dtype(), {y.size(1)}),
               ", the channels of weight ", weight.text()));
  return y + broadcast_dims(bias, y.shape(), {1}, at);
}

}  // namespace lockstep
