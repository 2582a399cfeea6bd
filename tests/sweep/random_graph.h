// A graph drawn from a seed: public functions on small inputs, a scalar loss, and the gradients of its float
// inputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/reference/host_tensor.h"
#include "core/ir/graph.h"

namespace lockstep::sweep {

struct RandomGraph {
  uint64_t seed = 0;
  int steps = 0;                             // functions that were drawn
  Graph graph;                               // outputs: loss, some values on the way, gradients; no vjp node
  Graph forward;                             // the same inputs (or the first of them); the loss alone
  std::vector<compiler::HostTensor> inputs;  // of the graph; random and short enough to be exact in bf16
  // The loss may be differentiated any number of times around these inputs, and its gradient is what was
  // asked for.
  bool smooth = true;
  std::optional<DType> policy =
      {};                    // what contractions compute in, where there is a policy (core/ops/precision.h)
  bool wide = false;         // has values of tens of thousands of elements, which kernels share among threads
  std::string text() const;  // seed, steps and the graph
};

// Deterministic in the seed, whatever the compiler: no two draws are arguments of one call. With `most` fewer
// functions are drawn, which are the first ones of the same graph.
RandomGraph random_graph(uint64_t seed, int most = 25);

}  // namespace lockstep::sweep
