// Finds bounds of a batch's whole numbers, and checks them.
#include "compiler/program/build/id_bounds.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/ops/held_number.h"

namespace lockstep::compiler {

namespace {
// The number that all elements of `v` equal.
std::optional<int64_t> whole_number_of(const Graph& graph, ValueId v) {
  for (;;) {
    if (!graph[v].producer.valid()) return {};
    const Node& node = graph.producer(v);
    if (node.op == ops::full) {
      if (!is_integer(graph[v].dtype)) return {};
      return number_of(node.attrs, "value", graph[v].dtype).bits();
    }
    if (node.op != ops::broadcast && node.op != ops::reshape) return {};
    v = node.inputs[0];
  }
}

// The batch field from which `v` is computed element by element, in any shape, order and width, with the
// changes; null if there is none.
struct OfField {
  const GraphInput* field = nullptr;
  std::vector<IdChange> changes = {};
};
bool is_whole(const Graph& graph, const Node& node) {
  if (node.op == ops::convert) {
    const DType to = graph[node.outputs[0]].dtype;
    return to == DType::i32 || to == DType::i64;
  }
  return node.op == ops::reshape || node.op == ops::permute || node.op == ops::broadcast ||
         node.op == ops::stop_gradient;
}
OfField field_of(const Graph& graph, ValueId v) {
  OfField out;
  for (;;) {
    const NodeId producer = graph[v].producer;
    if (!producer.valid()) break;
    const Node& node = graph.node(producer);
    size_t from = 0;
    if (node.op == ops::add || node.op == ops::sub || node.op == ops::mul) {
      auto number = whole_number_of(graph, node.inputs[1]);
      if (!number) number = whole_number_of(graph, node.inputs[0]), from = 1;
      if (!number) return {};
      out.changes.push_back({node.op, *number, from == 1, graph[v].dtype});
    } else if (!is_whole(graph, node)) {
      return {};
    }
    v = node.inputs[from];
    if (is_float(graph[v].dtype) || graph[v].dtype == DType::boolean) return {};
  }
  std::reverse(out.changes.begin(), out.changes.end());
  for (const auto& input : graph.inputs)
    if (input.value == v && input.kind == InputKind::batch) out.field = &input;
  return out;
}

// The read by ids of a node; count 0 if it reads nothing by ids.
IdRead read_of(const Graph& graph, const Node& node) {
  auto type = [&](size_t input) {
    const Value& value = graph[node.inputs[input]];
    return shape_text(value.dtype, value.shape);
  };
  IdRead out;
  out.op = node.op.name(), out.at = node.at;
  if (node.op == ops::embedding || node.op == ops::take) {
    out.ids = node.inputs[1], out.count = graph[node.inputs[0]].shape[0];
    out.of = str("a row of ", type(0));
  } else if (node.op == ops::index_add) {
    out.ids = node.inputs[0], out.count = node.attrs.integer("rows");
    out.of = str("one of ", out.count, " rows");
  } else if (node.op == ops::cross_entropy) {
    out.ids = node.inputs[1], out.count = graph[node.inputs[0]].shape.back();
    out.of = str("a class of the logits ", type(0)), out.wider = "logits wider";
    out.ignores = true, out.ignored = node.attrs.integer("ignore_index");
  }
  return out;
}
}  // namespace

std::vector<IdRead> id_reads(const Graph& traced, const std::vector<IdRead>& told) {
  std::vector<IdRead> out = told;
  for (const Node& node : traced.nodes) out.push_back(read_of(traced, node));
  std::erase_if(out, [](const IdRead& read) { return read.count == 0; });
  return out;
}

std::vector<IdBound> id_bounds(const Graph& traced, const std::vector<IdRead>& reads) {
  std::vector<IdBound> out;
  for (const IdRead& read : reads) {
    const OfField from = field_of(traced, read.ids);
    if (!from.field) continue;
    const bool known = std::any_of(out.begin(), out.end(), [&](const IdBound& other) {
      return other.field == from.field->name && other.changes == from.changes &&
             other.read.count <= read.count &&
             (!other.read.ignores || (read.ignores && other.read.ignored == read.ignored));
    });
    if (!known) out.push_back({from.field->name, from.changes, read});
  }
  return out;
}

namespace {
int64_t changed(int64_t id, const std::vector<IdChange>& changes) {
  for (const IdChange& change : changes) {
    const auto a = static_cast<uint64_t>(change.first ? change.by : id),
               b = static_cast<uint64_t>(change.first ? id : change.by);
    const uint64_t made = change.op == ops::add ? a + b : change.op == ops::sub ? a - b : a * b;
    int64_t held = 0;
    set_int(change.dtype, &held, 0, static_cast<int64_t>(made));
    id = get_int(change.dtype, &held, 0);
  }
  return id;
}
template <class T>
int64_t first_outside(const IdBound& bound, const T* ids, int64_t count) {
  const IdRead& read = bound.read;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = bound.changes.empty() ? ids[i] : changed(ids[i], bound.changes);
    if (id < 0 || id >= read.count) [[unlikely]]
      if (!read.ignores || id != read.ignored) return i;
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
  const int64_t id = get_int(dtype, data, at);
  const IdRead& read = bound.read;
  throw UserError(
      str("[", read.op, "] ", read.at.text(), ": the batch field \"", bound.field, "\" holds ", id,
          " in sample ", first + at / each, " of the step, at element ", at % each,
          bound.changes.empty() ? "" : str(", from which the step computes ", changed(id, bound.changes)),
          "; each is ", read.of, ", 0 to ", read.count - 1,
          read.ignores ? str(", or ", read.ignored, ", which does not count") : "",
          ": mend the data, or make the ", read.wider));
}

}  // namespace lockstep::compiler
