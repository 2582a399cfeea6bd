// The space of a body: rows and columns, derived from its reductions or from the shape of its outputs.
#pragma once

#include <optional>
#include <string>

#include "core/ir/graph.h"

namespace lockstep::compiler::codegen {

struct Space {
  int64_t rows = 1, columns = 1;
  bool operator==(const Space&) const = default;
};

// The position of one reduce node in a space. It depends only on the node, so its sums have one order in
// every kernel.
struct ReduceForm {
  bool column = false;  // over all leading dims, of two or more kept elements: sums run over the rows
  Space space;
  std::vector<int64_t> kept, reduced;  // dims of the input
};
ReduceForm form_of(const Graph& body, const Node& node);
bool finds_position(const Node& node);  // argmax, argmin

// Spaces to try, best guess first: the one that the reductions require, or splits of the outputs' shape.
// Empty with a reason if reductions disagree or outputs differ in size.
std::vector<Space> candidate_spaces(const Graph& body, std::string& reason);

}  // namespace lockstep::compiler::codegen
