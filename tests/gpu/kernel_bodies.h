// Fused bodies for tests of CUDA kernels: of every case of the sweep, of layers in awkward sizes, and of
// whole models.
#pragma once

#include <string>
#include <vector>

#include "compiler/reference/host_tensor.h"
#include "core/ops/op.h"

namespace lockstep {

struct BodyCase {
  std::string title;
  Graph body;
  Sample ranges;     // of random inputs
  double scale = 1;  // of the tolerance
};

// Composites and updates down to primitives; ops named in `keep` stay.
Graph expanded(const Graph& graph, const std::vector<OpId>& keep = {});
// Bodies of the fused nodes that a graph of primitives and library ops becomes.
std::vector<BodyCase> bodies_of(const Graph& graph, const std::string& title, const Sample& ranges,
                                bool fusion = true);

std::vector<BodyCase> sweep_bodies();             // every sample of the op table, in f32, f64, bf16 and f16
std::vector<BodyCase> layer_bodies(bool fusion);  // fuse_cases()
std::vector<BodyCase>
model_bodies();  // forward and backward of a gpt and a llama, in the sizes of GPT-2 124M
// Norms, softmax, cross-entropy, gelu and column sums at sizes of real models, bf16 and f32.
std::vector<BodyCase> large_bodies();

// Random inputs of a body.
std::vector<compiler::HostTensor> inputs_of(const BodyCase& one, uint64_t seed);

}  // namespace lockstep
