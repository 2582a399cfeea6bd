// Symbolic evaluation: views rewrite the index; every other value becomes an item.
#include "compiler/codegen/loops/evaluate.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ops/held_number.h"
#include "core/ops/op.h"

namespace lockstep::compiler::codegen {

namespace {
constexpr size_t kMostItems = 4000;
Item make_item(ItemKind kind, DType dtype, int cost) {
  Item item;
  item.kind = kind;
  item.dtype = dtype;
  item.cost = cost;
  return item;
}
}  // namespace

Evaluator::Evaluator(const Graph& body, Plan& plan, Indexer& indexer, std::vector<Item>& items, bool at_end)
    : body_(body), plan_(plan), indexer_(indexer), items_(items), at_end_(at_end) {
  for (size_t i = 0; i < body.inputs.size(); ++i) inputs_[body.inputs[i].value] = static_cast<int>(i);
}

int Evaluator::append(Item item) {
  if (items_.size() >= kMostItems) throw NoPlan("too many values");
  item.varies = item.varies || indexer_.varies_with_column(item.index);
  auto needs = [&](int id) {
    item.stage = std::max(item.stage, items_[id].stage);
    item.varies = item.varies || items_[id].varies;
  };
  for (int arg : item.args) needs(arg);
  for (int id : indexer_.items(item.index)) needs(id);
  for (const Guard& guard : item.guards) {
    item.varies = item.varies || indexer_.varies_with_column(guard.at);
    for (int id : indexer_.items(guard.at)) needs(id);
  }
  items_.push_back(std::move(item));
  return static_cast<int>(items_.size()) - 1;
}

int Evaluator::at(ValueId value, const Index& index) {
  auto key = std::pair(value, index);
  if (auto found = known_.find(key); found != known_.end()) return found->second;
  int made = -1;
  if (auto input = inputs_.find(value); input != inputs_.end()) {
    Item item = make_item(ItemKind::load, body_[value].dtype, 1);
    item.index = indexer_.flatten(index, body_[value].shape);
    item.input = input->second;
    made = append(std::move(item));
  } else {
    const Node& node = body_.producer(value);
    switch (op_row(node.op).kind) {
      case OpKind::pointwise:
        made = pointwise(node, value, index);
        break;
      case OpKind::view:
        made = view(node, index);
        break;
      case OpKind::creation:
        made = creation(node, index);
        break;
      case OpKind::random:
        made = random(node, value, index);
        break;
      case OpKind::reduce:
        made = reduced(value, index);
        break;
      case OpKind::index:
        if (!node.attrs.has("rows")) {
          made = take(node, index);
          break;
        }
        [[fallthrough]];
      default:
        throw NoPlan(str(node.op, " is not for generated kernels"));
    }
  }
  known_.emplace(std::move(key), made);
  return made;
}

int Evaluator::constant(DType dtype, const Number& number) {
  const Number value = number.in(dtype);
  for (size_t i = 0; i < items_.size(); ++i)
    if (items_[i].kind == ItemKind::constant && items_[i].dtype == dtype && items_[i].value.same_bits(value))
      return static_cast<int>(i);
  Item item = make_item(ItemKind::constant, dtype, 0);
  item.value = value;
  return append(std::move(item));
}

int Evaluator::pointwise(const Node& node, ValueId value, const Index& index) {
  const DType dtype = body_[value].dtype;
  Item item = make_item(ItemKind::pointwise, dtype,
                        op_row(node.op).scalar.cost +
                            (dtype == DType::bf16 || dtype == DType::f16 || is_float8(dtype) ? 4 : 0));
  item.node = &node;
  for (ValueId input : node.inputs) item.args.push_back(at(input, index));
  return append(std::move(item));
}

int Evaluator::creation(const Node& node, const Index& index) {
  DType dtype = node.attrs.dtype("dtype");
  if (!node.attrs.has("dim")) return constant(dtype, number_of(node.attrs, "value", dtype));
  Item item = make_item(ItemKind::iota, dtype, 2);
  item.index = index[node.attrs.integer("dim")];
  return append(std::move(item));
}

int Evaluator::random(const Node& node, ValueId value, const Index& index) {
  Item item = make_item(ItemKind::random, body_[value].dtype, 150);
  item.index = indexer_.flatten(index, body_[value].shape);
  item.node = &node;
  for (ValueId input : node.inputs) item.args.push_back(at(input, {}));
  return append(std::move(item));
}

int Evaluator::view(const Node& node, const Index& index) {
  const Attrs& attrs = node.attrs;
  const Shape& from = body_[node.inputs[0]].shape;
  const Shape& to = body_[node.outputs[0]].shape;
  if (node.inputs.size() > 1 || attrs.has("dim")) return concat(node, index);
  if (attrs.has("lo")) return pad(node, index);
  Index inner(from.size());
  if (attrs.has("order")) {
    const auto& order = attrs.list("order");
    for (size_t i = 0; i < order.size(); ++i) inner[order[i]] = index[i];
  } else if (attrs.has("start")) {
    const auto &start = attrs.list("start"), &step = attrs.list("step");
    for (size_t i = 0; i < from.size(); ++i)
      inner[i] = indexer_.shift(indexer_.scale(index[i], step[i]), start[i]);
  } else if (attrs.has("dilations")) {  // place k of window o is element o * stride + k * dilation
    const auto &strides = attrs.list("strides"), &dilations = attrs.list("dilations");
    const size_t sliding = strides.size(), lead = from.size() - sliding;
    for (size_t i = 0; i < lead; ++i) inner[i] = index[i];
    for (size_t i = 0; i < sliding; ++i)
      inner[lead + i] = indexer_.add(indexer_.scale(index[lead + i], strides[i]),
                                     indexer_.scale(index[lead + sliding + i], dilations[i]));
  } else if (attrs.has("dims")) {
    const auto& dims = attrs.list("dims");
    for (size_t i = 0; i < from.size(); ++i) inner[i] = from[i] == 1 ? Expr{} : index[dims[i]];
  } else {
    inner = indexer_.unflatten(indexer_.flatten(index, to), from);
  }
  return at(node.inputs[0], inner);
}

// Values outside a guard are computed at a safe index and discarded.
int Evaluator::select(DType dtype, std::vector<Guard> guards, int inside, int outside) {
  Item item = make_item(ItemKind::select, dtype, 2);
  item.args = {inside, outside};
  item.guards = std::move(guards);
  return append(std::move(item));
}

int Evaluator::pad(const Node& node, const Index& index) {
  const Shape& from = body_[node.inputs[0]].shape;
  const auto& lo = node.attrs.list("lo");
  DType dtype = body_[node.inputs[0]].dtype;
  int outside = constant(dtype, number_of(node.attrs, "value", dtype));
  if (numel(from) == 0) return outside;
  Index inner(from.size());
  std::vector<Guard> guards;
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t begin = lo[i], end = lo[i] + from[i];
    if (indexer_.high(index[i]) < begin || indexer_.low(index[i]) >= end) return outside;
    inner[i] = indexer_.guard(index[i], begin, end);
    if (indexer_.low(index[i]) < begin || indexer_.high(index[i]) >= end)
      guards.push_back({index[i], begin, end});
  }
  int inside = at(node.inputs[0], inner);
  return guards.empty() ? inside : select(dtype, std::move(guards), inside, outside);
}

int Evaluator::concat(const Node& node, const Index& index) {
  const size_t dim = node.attrs.integer("dim");
  const DType dtype = body_[node.outputs[0]].dtype;
  int made = -1;
  int64_t end = body_[node.outputs[0]].shape[dim];
  for (size_t k = node.inputs.size(); k-- > 0;) {
    const Shape& from = body_[node.inputs[k]].shape;
    int64_t begin = end - from[dim];
    bool touched = numel(from) > 0 && indexer_.high(index[dim]) >= begin && indexer_.low(index[dim]) < end;
    if (touched) {
      Index inner = index;
      inner[dim] = indexer_.guard(index[dim], begin, end);
      int part = at(node.inputs[k], inner);
      made = made < 0 ? part : select(dtype, {{index[dim], begin, end}}, part, made);
    }
    end = begin;
  }
  return made < 0 ? constant(dtype, 0) : made;
}

int Evaluator::take(const Node& node, const Index& index) {
  const Shape &table = body_[node.inputs[0]].shape, &ids = body_[node.inputs[1]].shape;
  if (numel(table) == 0) return constant(body_[node.inputs[0]].dtype, 0);
  int id = at(node.inputs[1], Index(index.begin(), index.begin() + static_cast<int64_t>(ids.size())));
  // One clamped number per id item and table size.
  auto [known, fresh] = numbers_.try_emplace({id, table[0]}, -1);
  if (fresh) {
    Item item = make_item(ItemKind::row_number, DType::i32, 2);
    item.bound = table[0];
    item.args = {id};
    known->second = append(std::move(item));
  }
  const int number = known->second;
  Index inner{indexer_.item(number, table[0], items_[number].varies)};
  inner.insert(inner.end(), index.begin() + static_cast<int64_t>(ids.size()), index.end());
  return at(node.inputs[0], inner);
}

int Evaluator::reduced(ValueId value, const Index& index) {
  auto found = reductions_.find(value);
  if (found == reductions_.end()) throw NoPlan("a reduction is read where it is not complete");
  const Reduction& reduction = plan_.reductions[found->second];
  Expr flat = indexer_.flatten(index, body_[value].shape);
  if (reduction.column != at_end_) throw NoPlan("a reduction is read where it is not complete");
  if (!(flat == (at_end_ ? indexer_.column() : indexer_.row())))
    throw NoPlan("a reduction is read at another row than its own");
  Item item = make_item(at_end_ ? ItemKind::column_result : ItemKind::row_result, body_[value].dtype, 0);
  item.reduction = found->second;
  item.stage = at_end_ ? 0 : reduction.stage + 1;
  item.varies = at_end_;
  return append(std::move(item));
}

}  // namespace lockstep::compiler::codegen
