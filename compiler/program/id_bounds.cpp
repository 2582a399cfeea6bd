// Bounds of a batch's whole numbers, and their check.
#include "compiler/program/id_bounds.h"

#include <algorithm>
#include <optional>

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
  const char* wider = "table larger";
};

// Places in the row-major order of a tensor, as gather() and scatter() write them: ids along one dim, numbers
// along the others, each times the stride of its dim.
struct Places {
  ValueId ids;
  int64_t stride = 1;  // of the ids
  std::vector<int64_t> all = {};
};
bool read_places(const Graph& graph, ValueId v, int64_t stride, Places& out) {
  const Node* node = graph[v].producer.valid() ? &graph.producer(v) : nullptr;
  if (node && node->op == ops::iota) return out.all.push_back(stride), true;
  if (node && (node->op == ops::add || node->op == ops::reshape)) {
    for (ValueId part : node->inputs)
      if (!read_places(graph, part, stride, out)) return false;
    return true;
  }
  if (node && node->op == ops::mul && stride == 1 && is_integer(graph[v].dtype) &&
      graph[node->inputs[1]].producer.valid())
    if (const Node& by = graph.producer(node->inputs[1]); by.op == ops::full)
      return read_places(graph, node->inputs[0], by.attrs.integer("value"), out);
  if (out.ids != kNoValue || !field_of(graph, v)) return false;
  out.ids = v, out.stride = stride, out.all.push_back(stride);
  return true;
}
// Of ids along a dim of a tensor of this shape, whose places `v` holds; none where it is other arithmetic.
std::optional<Reads> along_a_dim(const Graph& graph, ValueId v, const Shape& shape) {
  Places places;
  if (shape.size() < 2 || !read_places(graph, v, 1, places) || places.ids == kNoValue) return {};
  std::vector<int64_t> strides(shape.size(), 1);
  int64_t size = 0;
  for (size_t d = shape.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * shape[d];
  for (size_t d = 0; d < shape.size(); ++d)
    if (strides[d] == places.stride) size = std::max(size, shape[d]);
  std::sort(places.all.begin(), places.all.end());
  std::sort(strides.begin(), strides.end());
  if (strides != places.all) return {};
  return Reads{places.ids, size, str("an index along a dim of ", size), "dim larger"};
}
// The shape of a tensor of which a node takes or makes the elements in a row.
Shape shape_in_a_row(const Graph& graph, const Node& node) {
  if (node.op == ops::take && graph[node.inputs[0]].producer.valid())
    if (const Node& from = graph.producer(node.inputs[0]); from.op == ops::reshape)
      return graph[from.inputs[0]].shape;
  if (node.op == ops::index_add)
    for (const Node& user : graph.nodes)
      if (user.op == ops::reshape && user.inputs[0] == node.outputs[0]) return graph[user.outputs[0]].shape;
  return {};
}
Reads reads_of(const Graph& graph, const Node& node) {
  auto type = [&](size_t input) {
    const Value& value = graph[node.inputs[input]];
    return shape_text(value.dtype, value.shape);
  };
  if (node.op == ops::take || node.op == ops::index_add)
    if (auto reads =
            along_a_dim(graph, node.inputs[node.op == ops::take ? 1 : 0], shape_in_a_row(graph, node)))
      return *reads;
  if (node.op == ops::embedding || node.op == ops::take)
    return {node.inputs[1], graph[node.inputs[0]].shape[0], str("a row of ", type(0))};
  if (node.op == ops::index_add) {
    const int64_t rows = node.attrs.integer("rows");
    return {node.inputs[0], rows, str("one of ", rows, " rows")};
  }
  if (node.op == ops::cross_entropy)
    return {node.inputs[1], graph[node.inputs[0]].shape.back(), str("a class of the logits ", type(0)),
            "logits wider"};
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
    const IdBound bound{field->name, reads.count, ignores,  ignores ? node.attrs.integer("ignore_index") : 0,
                        node.op,     node.at,     reads.of, reads.wider};
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
                      ": mend the data, or make the ", bound.wider));
}

}  // namespace lockstep::compiler
