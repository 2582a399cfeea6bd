// The calls of functions/make.py with matrices.
#include <limits>

#include "core/functions/matrices/linalg.h"
#include "tests/golden/functions_table.h"

namespace lockstep::golden {

std::map<std::string, std::function<Tensors(const Tensors&)>> matrices() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return {
      {"diagonal_0", [](const Tensors& x) -> Tensors { return {diagonal(x[0])}; }},
      {"diagonal_1", [](const Tensors& x) -> Tensors { return {diagonal(x[0], 1)}; }},
      {"diagonal_-2", [](const Tensors& x) -> Tensors { return {diagonal(x[0], -2)}; }},
      {"diag_embed", [](const Tensors& x) -> Tensors { return {diag_embed(x[0])}; }},
      {"diag_vector", [](const Tensors& x) -> Tensors { return {diag(x[0])}; }},
      {"diag_matrix", [](const Tensors& x) -> Tensors { return {diag(x[0])}; }},
      {"trace", [](const Tensors& x) -> Tensors { return {trace(x[0])}; }},
      {"matrix_norm_1", [](const Tensors& x) -> Tensors { return {matrix_norm(x[0], 1)}; }},
      {"matrix_norm_-1", [](const Tensors& x) -> Tensors { return {matrix_norm(x[0], -1)}; }},
      {"matrix_norm_inf", [](const Tensors& x) -> Tensors { return {matrix_norm(x[0], kInf)}; }},
      {"matrix_norm_-inf", [](const Tensors& x) -> Tensors { return {matrix_norm(x[0], -kInf)}; }},
      {"matrix_power_0", [](const Tensors& x) -> Tensors { return {matrix_power(x[0], 0)}; }},
      {"matrix_power_1", [](const Tensors& x) -> Tensors { return {matrix_power(x[0] / 2, 1)}; }},
      {"matrix_power_3", [](const Tensors& x) -> Tensors { return {matrix_power(x[0] / 2, 3)}; }},
      {"matrix_power_-2", [](const Tensors& x) -> Tensors { return {matrix_power(x[0], -2)}; }},
      {"cholesky", [](const Tensors& x) -> Tensors { return {cholesky(x[0])}; }},
      {"cholesky_1", [](const Tensors& x) -> Tensors { return {cholesky(x[0])}; }},
      {"solve_lower", [](const Tensors& x) -> Tensors { return {solve_triangular(x[0], x[1], false)}; }},
      {"solve_upper", [](const Tensors& x) -> Tensors { return {solve_triangular(x[0], x[1], true)}; }},
      {"solve", [](const Tensors& x) -> Tensors { return {solve(x[0], x[1])}; }},
      {"solve_vector", [](const Tensors& x) -> Tensors { return {solve(x[0], x[1])}; }},
      {"solve_vectors", [](const Tensors& x) -> Tensors { return {solve(x[0], x[1])}; }},
      {"solve_broadcast", [](const Tensors& x) -> Tensors { return {solve(x[0], x[1])}; }},
      {"inverse", [](const Tensors& x) -> Tensors { return {inverse(x[0])}; }},
      {"det", [](const Tensors& x) -> Tensors { return {det(x[0])}; }},
      {"det_1", [](const Tensors& x) -> Tensors { return {det(x[0])}; }},
      {"slogdet",
       [](const Tensors& x) -> Tensors {
         const SignAndLogDet made = slogdet(x[0]);
         return {made.sign, made.logabs};
       }},
  };
}

}  // namespace lockstep::golden
