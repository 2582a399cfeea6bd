// A library for compile.load_ops: an activation of its own, and a pass that puts it in the place of gelu.
#include "lockstep.h"

namespace {
using namespace lockstep;

Graph replaced(Graph graph) {
  for (Node& node : graph.nodes)
    if (node.op == ops::gelu) {
      node.op = intern("mine::bump");
      node.attrs = {};
    }
  return graph;
}
}  // namespace

LOCKSTEP_OP_LIBRARY {
  register_op({.name = "mine::bump",
               .scalar = "{0} / (1.0f + {0} * {0})",
               .cost = 8,
               .formula = [](std::span<const double> x, const Attrs&) { return x[0] / (1 + x[0] * x[0]); },
               .gradient =
                   [](const VjpContext& c) {
                     const Tensor square = c.in[0] * c.in[0], below = 1.0 + square;
                     return std::vector<Tensor>{c.grad[0] * (1.0 - square) / (below * below)};
                   },
               .samples = {{.in = {{DType::f32, {3, 5}}}}}});
  register_pass("round_rows", "mine::bump_for_gelu", replaced);
}
