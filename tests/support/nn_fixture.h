// A mesh seen from one rank, and a graph to trace models into, for tests of layers and optimizers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/models/families.h"
#include "core/models/gpt.h"
#include "core/models/llama.h"
#include "core/nn/layers.h"
#include "core/nn/state.h"
#include "core/ops/op.h"

namespace lockstep::testing {

// The mesh words seen from `rank`, with groups of one: enough for what talks to nobody.
inline LiveMesh mesh_of(Shape shape, std::vector<std::string> dim_names, int64_t rank = 0) {
  LiveMesh mesh = solo_mesh();
  mesh.words = Mesh{std::move(shape), std::move(dim_names)};
  mesh.rank = rank;
  mesh.groups.assign(static_cast<size_t>(mesh.words.ndim()), mesh.world);
  return mesh;
}

// A graph under construction with the batch inputs ids and targets, i32 [sequences, tokens].
struct Tracing {
  std::shared_ptr<Builder> builder = std::make_shared<Builder>();
  Tensor ids, targets;
  Tracing(int64_t sequences, int64_t tokens) {
    ids = {builder, builder->graph.add_input(InputKind::batch, "ids", DType::i32, {sequences, tokens})};
    targets = {builder,
               builder->graph.add_input(InputKind::batch, "targets", DType::i32, {sequences, tokens})};
  }
  Graph& graph() { return builder->graph; }
  int64_t count(OpId op) const {
    int64_t n = 0;
    for (const Node& node : builder->graph.nodes) n += node.op == op;
    return n;
  }
};

inline std::vector<std::string> fqns(const State& state) {
  std::vector<std::string> out;
  for (const Spec& spec : state.specs()) out.push_back(spec.fqn);
  return out;
}

}  // namespace lockstep::testing
