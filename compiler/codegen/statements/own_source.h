// Source of a registered op as text of a kernel: what surrounds the user's function, in C++ and CUDA C++
// alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler::codegen {

// The only node of a body, if it is one of a registered op that runs as source; else null.
const Node* own_node(const Graph& body);

struct OwnText {
  std::string definitions;  // #include lines, and a namespace with the user's function
  std::string arguments;    // statements that make `in`, `out` and `attrs` of the pointers given
  std::string call;         // own_NAME::run(in, out, attrs, item)
  int64_t items = 0;        // calls
};
// `name`: of the kernel; `function`: the words that OWN_FN stands for; `pointers`: expressions of the
// arguments in order.
OwnText own_text(const Graph& body, const std::string& source, const std::string& name,
                 std::string_view function, const std::vector<std::string>& pointers);

}  // namespace lockstep::compiler::codegen
