// Bounds of a batch's whole numbers, and their check.
#include "compiler/program/id_bounds.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
// The batch field whose elements all are those of `v`, in any shape, order and width; null where there is
// none.
const GraphInput* field_of(const Graph& graph, ValueId v) {
  for (;;) {
    const NodeId producer = graph[v].producer;
    if (!producer.valid()) break;
    const Node& node = graph.node(producer);
    const bool whole =
        node.op == ops::reshape || node.op == ops::permute || node.op == ops::broadcast ||
        node.op == ops::stop_gradient ||
        (node.op == ops::convert && (graph[v].dtype == DType::i32 || graph[v].dtype == DType::i64));
    if (!whole || is_float(graph[node.inputs[0]].dtype) || graph[node.inputs[0]].dtype == DType::boolean)
      return nullptr;
    v = node.inputs[0];
  }
  for (const auto& input : graph.inputs)
    if (input.value == v && input.kind == InputKind::batch) return &input;
  return nullptr;
}

// Where an op reads ids, and how many there are; count 0 for an op that reads none.
struct Reads {
  ValueId ids;
  int64_t count = 0;
  std::string of = {};
};
Reads reads_of(const Graph& graph, const Node& node) {
  auto type = [&](size_t input) {
    const Value& value = graph[node.inputs[input]];
    return shape_text(value.dtype, value.shape);
  };
  if (node.op == ops::embedding || node.op == ops::take)
    return {node.inputs[1], graph[node.inputs[0]].shape[0], str("a row of ", type(0))};
  if (node.op == ops::index_add) {
    const int64_t rows = node.attrs.integer("rows");
    return {node.inputs[0], rows, str("one of ", rows, " rows")};
  }
  if (node.op == ops::cross_entropy)
    return {node.inputs[1], graph[node.inputs[0]].shape.back(), str("a class of the logits ", type(0))};
  return {};
}
}  // namespace

std::vector<IdBound> id_bounds(const Graph& traced) {
  std::vector<IdBound> out;
  for (const Node& node : traced.nodes) {
    const Reads reads = reads_of(traced, node);
    if (reads.count == 0) continue;
    const GraphInput* field = field_of(traced, reads.ids);
    if (!field) continue;
    const bool ignores = node.op == ops::cross_entropy;
    const IdBound bound{field->name, reads.count, ignores, ignores ? node.attrs.integer("ignore_index") : 0,
                        node.op,     node.at,     reads.of};
    const bool known = std::any_of(out.begin(), out.end(), [&](const IdBound& other) {
      return other.field == bound.field && other.count <= bound.count &&
             (!other.ignores || (bound.ignores && other.ignored == bound.ignored));
    });
    if (!known) out.push_back(bound);
  }
  return out;
}

namespace {
template <class T>
int64_t first_outside(const IdBound& bound, const T* ids, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = ids[i];
    if (id < 0 || id >= bound.count) [[unlikely]]
      if (!bound.ignores || id != bound.ignored) return i;
  }
  return -1;
}
}  // namespace

void check_ids(const IdBound& bound, DType dtype, const Shape& shape, const void* data, int64_t first) {
  const int64_t count = numel(shape), each = std::max<int64_t>(1, count / std::max<int64_t>(1, shape[0]));
  int64_t at = -1;
  if (dtype == DType::i32) at = first_outside(bound, static_cast<const int32_t*>(data), count);
  if (dtype == DType::i64) at = first_outside(bound, static_cast<const int64_t*>(data), count);
  if (dtype == DType::u16) at = first_outside(bound, static_cast<const uint16_t*>(data), count);
  if (dtype == DType::u8) at = first_outside(bound, static_cast<const uint8_t*>(data), count);
  if (at < 0) return;
  throw UserError(str("[", bound.op, "] ", bound.at.text(), ": the batch field \"", bound.field, "\" holds ",
                      get_int(dtype, data, at), " in sample ", first + at / each, " of the step, at element ",
                      at % each, "; each is ", bound.of, ", 0 to ", bound.count - 1,
                      bound.ignores ? str(", or ", bound.ignored, ", which does not count") : "",
                      ": mend the data, or make the ", bound.ignores ? "logits wider" : "table larger"));
}

}  // namespace lockstep::compiler
