// Chooses candidate spaces of bodies.
#include "compiler/codegen/loops/space.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler::codegen {

bool finds_position(const Node& node) { return node.attrs.has("dim"); }

ReduceForm form_of(const Graph& body, const Node& node) {
  const Shape& shape = body[node.inputs[0]].shape;
  std::vector<int64_t> dims =
      finds_position(node) ? std::vector<int64_t>{node.attrs.integer("dim")} : node.attrs.list("dims");
  ReduceForm form;
  int64_t reduced = 1, kept = 1;
  int64_t last_reduced = -1, first_kept = static_cast<int64_t>(shape.size());
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    int64_t size = shape[d];
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) {
      form.reduced.push_back(d);
      reduced *= size;
      if (size != 1) last_reduced = d;
    } else {
      form.kept.push_back(d);
      kept *= size;
      if (size != 1) first_kept = std::min(first_kept, d);
    }
  }
  form.column = !finds_position(node) && kept >= 2 && reduced >= 2 && last_reduced < first_kept;
  form.space = form.column ? Space{reduced, kept} : Space{kept, reduced};
  return form;
}

std::vector<Space> candidate_spaces(const Graph& body, std::string& reason) {
  std::optional<Space> space;
  for (const Node& node : body.nodes) {
    if (op_row(node.op).kind != OpKind::reduce) continue;
    Space own = form_of(body, node).space;
    if (space && !(*space == own)) {
      reason =
          str("reductions over ", space->rows, " x ", space->columns, " and ", own.rows, " x ", own.columns);
      return {};
    }
    space = own;
  }
  if (space) return {*space};
  LS_CHECK(!body.outputs.empty(), "a body without outputs");
  const Shape* shape = &body[body.outputs[0].value].shape;  // the largest
  for (const auto& output : body.outputs)
    if (numel(body[output.value].shape) > numel(*shape)) shape = &body[output.value].shape;
  const int64_t size = numel(*shape);
  int64_t per_row = size;  // outputs of another size have one element per row
  for (const auto& output : body.outputs) {
    const int64_t own = numel(body[output.value].shape);
    if (own == size) continue;
    if (own == 0 || size % own != 0 || (per_row != size && per_row != own)) {
      reason = str("outputs of ", size, " and ", own, " elements");
      return {};
    }
    per_row = own;
  }
  if (per_row != size) return {{per_row, size / per_row}};
  std::vector<Space> out{{1, numel(*shape)}};
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape->size(); ++i) {
    rows *= (*shape)[i];
    if (rows > 1 && rows < numel(*shape)) out.push_back({rows, numel(*shape) / rows});
  }
  return out;
}

}  // namespace lockstep::compiler::codegen
