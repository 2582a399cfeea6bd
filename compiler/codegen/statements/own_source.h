// Source of a registered op as kernel text: the code around the user's function, in both C++ and CUDA C++.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler::codegen {

// The only node of a body if it is a registered op that runs as source; else null.
const Node* own_node(const Graph& body);

struct OwnText {
  std::string definitions;  // #include lines, and a namespace with the user's function
  std::string arguments;    // statements that make `in`, `out` and `attrs` from the given pointers
  std::string call;         // own_NAME::run(in, out, attrs, item)
  int64_t items = 0;        // number of calls
};
// `name`: of the kernel. `function`: the words that OWN_FN expands to. `pointers`: expressions of the
// arguments in order.
OwnText own_text(const Graph& body, const std::string& source, const std::string& name,
                 std::string_view function, const std::vector<std::string>& pointers);

}  // namespace lockstep::compiler::codegen
