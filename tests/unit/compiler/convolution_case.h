// A convolution or one of its gradients as a node, with operands, for tests of library calls.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/library/library.h"
#include "core/ops/op.h"

namespace lockstep::compiler::test {

struct ConvolutionCase {
  Shape x, w;
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
  bool bias = false;

  Shape y() const {
    Shape out{x[0], w[0]};
    for (size_t d = 0; d < stride.size(); ++d)
      out.push_back((x[d + 2] + 2 * padding[d] - dilation[d] * (w[d + 2] - 1) - 1) / stride[d] + 1);
    return out;
  }
  std::vector<TypedShape> in(OpId op, DType dtype) const {
    if (op == ops::convolution_grad_input) return {{dtype, y()}, {dtype, w}};
    if (op == ops::convolution_grad_weight) return {{dtype, x}, {dtype, y()}};
    std::vector<TypedShape> out{{dtype, x}, {dtype, w}};
    if (bias) out.push_back({dtype, {w[0]}});
    return out;
  }
  TypedShape out(OpId op, DType dtype) const {
    return {dtype, op == ops::convolution ? y() : op == ops::convolution_grad_input ? x : w};
  }
  // One node on inputs in order; its output is the graph's.
  Graph graph(OpId op, DType dtype) const {
    Graph made;
    Attrs attrs{
        {"stride", stride}, {"lo", padding}, {"hi", padding}, {"dilation", dilation}, {"groups", groups}};
    const Shape& of = op == ops::convolution_grad_input ? x : w;
    if (op != ops::convolution) attrs.set("spatial", std::vector<int64_t>(of.begin() + 2, of.end()));
    std::vector<ValueId> inputs;
    for (const TypedShape& type : in(op, dtype))
      inputs.push_back(made.add_input(InputKind::value, str("x", inputs.size()), type.dtype, type.shape));
    const TypedShape to = out(op, dtype);
    made.add_output(OutputKind::value, "y", made.append(op, inputs, attrs, {{to.dtype, to.shape}}, {})[0]);
    return made;
  }
  std::vector<Operand> operands(OpId op, DType dtype) const {
    std::vector<Operand> made;
    for (const TypedShape& type : in(op, dtype)) made.push_back(dense_operand(type.dtype, type.shape));
    return made;
  }
  Operand result(OpId op, DType dtype) const { return dense_operand(dtype, out(op, dtype).shape); }
};

// 1 to 3 dims, groups, strides that leave a rest, dilations, a depthwise one, channels that fill tensor
// cores, one place, windows side by side, many windows.
inline std::vector<ConvolutionCase> convolution_cases() {
  return {{{2, 3, 11}, {4, 3, 3}, {2}, {1}, {1}, 1, true},
          {{2, 4, 9, 7}, {6, 2, 3, 2}, {2, 1}, {1, 0}, {1, 2}, 2, false},
          {{2, 8, 7, 7}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 8, true},
          {{3, 16, 10, 9}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true},
          {{2, 64, 12, 12}, {64, 64, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, false},
          {{2, 3, 21, 20}, {16, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}, 1, false},
          {{2, 24, 9, 11}, {24, 1, 7, 7}, {1, 1}, {3, 3}, {1, 1}, 24, true},
          {{3, 10, 9, 8}, {10, 1, 3, 3}, {2, 2}, {1, 1}, {1, 2}, 10, false},
          {{1, 4, 5, 6, 4}, {8, 4, 3, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 1}, 1, true},
          {{3, 12, 7, 9}, {8, 12, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, true},
          {{2, 6, 8, 7}, {5, 6, 1, 1}, {2, 2}, {0, 0}, {1, 1}, 1, true},
          {{2, 8, 14, 9}, {4, 8, 3, 5}, {1, 1}, {0, 3}, {2, 1}, 1, false},
          {{2, 4, 6, 4}, {12, 4, 2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, true}};
}
inline const OpId kConvolutionOps[] = {ops::convolution, ops::convolution_grad_input,
                                       ops::convolution_grad_weight};

}  // namespace lockstep::compiler::test
