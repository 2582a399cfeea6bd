// Prints a graph as text that parse_graph reads back.
//
//   graph [dp_replicate=2] {
//     in state "token.weight" %0 f32[256,128]
//     in batch "ids" %1 i32[4,128] {dp_replicate: PerLane}
//     %2 f32[4,128,128] {dp_replicate: PerLane} = embedding(%0, %1) {scale=1.5} @ "gpt.cpp:12" "blocks.0"
//     %3 f32[4], %4 i64[] = fused(%2) {...} body graph [...] { ... } @ ...
//     out metric "loss" %3
//   }
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace lockstep {

struct PrintOptions {
  bool source_lines = true;
};
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string text(const Attrs& attrs);  // "{scale=1.5, dim=0}"; "" without any

}  // namespace lockstep
