// The op table: lookup of rows, types of nodes, verification of graphs.
#include "core/ops/op.h"

#include <algorithm>
#include <atomic>
#include <deque>

#include "core/base/error.h"
#include "core/ir/verify.h"

namespace lockstep {

void InferContext::fail(const std::string& what) const {
  throw UserError(str("[", op, "] ", at.text(), ": ", what));
}

std::string types_text(const std::vector<TypedShape>& types) {
  std::vector<std::string> parts;
  for (const auto& type : types) parts.push_back(shape_text(type.dtype, type.shape));
  return join(parts, ";");
}

namespace {
// A snapshot of all rows, with the index of each by its handle. Adding a row makes a new table: readers of
// the old one are not affected, and lookups need no lock.
struct Table {
  std::vector<const Op*> rows, by_id;
  void add(const Op* row) {
    const size_t place = row->id.index();
    if (place >= by_id.size()) by_id.resize(place + 1);
    LS_CHECK(!by_id[place], "two rows of the op table are named ", row->id);
    by_id[place] = row;
    rows.push_back(row);
  }
};
std::atomic<const Table*>& table() {
  static std::atomic<const Table*> newest = [] {
    static Table built_in;
    for (auto family : {pointwise_ops(), creation_ops(), reduce_ops(), view_ops(), contract_ops(),
                        composite_ops(), update_ops(), lane_ops()})
      for (const Op& row : family) built_in.add(&row);
    return &built_in;
  }();
  return newest;
}
}  // namespace

const std::vector<const Op*>& all_ops() { return table().load(std::memory_order_acquire)->rows; }

const Op* find_op(OpId op) {
  const Table& now = *table().load(std::memory_order_acquire);
  return op.index() < now.by_id.size() ? now.by_id[op.index()] : nullptr;
}

const void* op_table_address() { return &table(); }

void add_row(Op row) {
  static std::deque<Op> rows;  // rows and tables are never freed
  static std::deque<Table> tables;
  tables.push_back(*table().load(std::memory_order_relaxed));
  tables.back().add(&rows.emplace_back(std::move(row)));
  table().store(&tables.back(), std::memory_order_release);
}

std::string unknown_op(OpId op) {
  std::vector<std::string> known;
  for (const Op* row : all_ops()) known.emplace_back(row->id.name());
  std::string near = nearest(op.name(), known);
  return str("no op is named \"", op, "\"", near.empty() ? "" : str("; did you mean \"", near, "\"?"));
}

const Op& op_row(OpId op) {
  if (const Op* row = find_op(op)) return *row;
  throw InternalError(unknown_op(op));
}

namespace {
std::string_view words(AttrType type) {
  switch (type) {
    case AttrType::flag:
      return "a flag";
    case AttrType::integer:
      return "an integer";
    case AttrType::number:
      return "a number";
    case AttrType::word:
      return "a word";
    case AttrType::list:
      return "a list";
    case AttrType::dtype:
      return "a dtype";
  }
  return "";
}
bool is_of(AttrType type, const Attr& attr) {
  switch (type) {
    case AttrType::flag:
      return std::holds_alternative<bool>(attr);
    case AttrType::integer:
      return std::holds_alternative<int64_t>(attr);
    case AttrType::number:
      return std::holds_alternative<double>(attr) || std::holds_alternative<int64_t>(attr);
    case AttrType::word:
      return std::holds_alternative<std::string>(attr);
    case AttrType::list:
      return std::holds_alternative<std::vector<int64_t>>(attr);
    case AttrType::dtype:
      return std::holds_alternative<DType>(attr);
  }
  return false;
}

// "; did you mean \"dims\"?", or the list of attributes.
std::string advice(const Op& row, const std::string& name) {
  if (row.attrs.empty()) return "; it takes none";
  std::vector<std::string> known, quoted;
  for (const AttrField& field : row.attrs) {
    known.emplace_back(field.name);
    quoted.push_back(str('"', field.name, '"'));
  }
  const std::string near = nearest(name, known);
  return near.empty() ? str("; known: ", join(quoted, ", ")) : str("; did you mean \"", near, "\"?");
}
void check_attrs(const Op& row, const InferContext& c) {
  for (const auto& [name, value] : c.attrs.items()) {
    auto field =
        std::find_if(row.attrs.begin(), row.attrs.end(), [&](const auto& f) { return f.name == name; });
    if (field == row.attrs.end()) c.fail(str("has no attribute \"", name, "\"", advice(row, name)));
    if (!is_of(field->type, value)) c.fail(str("the attribute \"", name, "\" is not ", words(field->type)));
  }
  for (const AttrField& field : row.attrs)
    if (!field.optional && !c.attrs.has(field.name))
      c.fail(str("needs the attribute \"", field.name, "\", ", words(field.type)));
}
}  // namespace

std::vector<TypedShape> infer(const Op& row, const InferContext& context) {
  check_attrs(row, context);
  std::vector<TypedShape> out = row.infer(context);
  for (const TypedShape& type : out)
    if (!is_countable(type.dtype, type.shape))
      context.fail(str("gives ", types_text({type}), ", which has more bytes than 64 bits can count"));
  return out;
}

std::vector<TypedShape> infer(const Graph& graph, const Node& node) {
  if (node.op == ops::fused) {
    check_attrs(op_row(node.op), {node.op, {}, node.attrs, node.at});
    std::vector<TypedShape> out;
    for (const auto& output : node.body->outputs)
      out.push_back({(*node.body)[output.value].dtype, (*node.body)[output.value].shape});
    return out;
  }
  std::vector<TypedShape> in;
  for (ValueId id : node.inputs) in.push_back({graph[id].dtype, graph[id].shape});
  return infer(op_row(node.op), {node.op, in, node.attrs, node.at});
}

void verify(const Graph& graph, std::string_view after) {
  verify_structure(graph, after);
  for (const Node& node : graph.nodes) {
    if (node.body) {
      verify(*node.body, after);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Value &given = graph[node.inputs[i]], &taken = (*node.body)[node.body->inputs[i].value];
        // The tensors of an update's body represent tensors of any size.
        const bool fits =
            node.op == ops::update ? given.shape.empty() == taken.shape.empty() : given.shape == taken.shape;
        LS_CHECK(given.dtype == taken.dtype && fits, "after ", after, ": ", node.op, " at ", node.at.text(),
                 " gives its body ", shape_text(given.dtype, given.shape), " for ",
                 shape_text(taken.dtype, taken.shape));
      }
    }
    std::vector<TypedShape> types, held;
    try {
      types = infer(graph, node);
    } catch (const UserError& error) { throw InternalError(str("after ", after, ": ", error.what())); }
    for (ValueId id : node.outputs) held.push_back({graph[id].dtype, graph[id].shape});
    LS_CHECK(types == held, "after ", after, ": ", node.op, " at ", node.at.text(), " makes ",
             types_text(types), ", the graph says ", types_text(held));
  }
}

}  // namespace lockstep
