// Plans of bodies: the space, the reductions in order, the outputs at their level, and the costs.
#include "compiler/codegen/loops/plan_body.h"

#include <algorithm>

#include "compiler/codegen/loops/evaluate.h"
#include "compiler/codegen/loops/space.h"
#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler::codegen {

namespace {

// The index into the reduced tensor for element (r, c).
Index element_index(const Graph& body, const Node& node, const ReduceForm& form, Indexer& indexer) {
  const Shape& shape = body[node.inputs[0]].shape;
  const auto& across = form.column ? form.reduced : form.kept;
  const auto& along = form.column ? form.kept : form.reduced;
  auto part = [&](const std::vector<int64_t>& dims, const Expr& flat, Index& out) {
    Shape sizes;
    for (int64_t d : dims) sizes.push_back(shape[d]);
    Index inner = indexer.unflatten(flat, sizes);
    for (size_t i = 0; i < dims.size(); ++i) out[dims[i]] = inner[i];
  };
  Index out(shape.size());
  part(across, indexer.row(), out);
  part(along, indexer.column(), out);
  return out;
}

void place_output(const Graph& body, size_t output, Plan& plan, Evaluator& main, Evaluator& end) {
  const ValueId value = body.outputs[output].value;
  const Shape& shape = body[value].shape;
  const int64_t size = numel(shape);
  Indexer& indexer = *plan.indexer;
  std::string reason = "an output has a size of its own";
  auto attempt = [&](Level level, Evaluator& evaluator, Indexer& at, const Expr& flat) {
    auto items = plan.items.size(), ends = plan.combine_items.size();
    try {
      int item = evaluator.at(value, at.unflatten(flat, shape));
      plan.stores.push_back({static_cast<int>(output), item, level, flat});
      return true;
    } catch (const NoPlan& error) {
      (void)items, (void)ends;
      reason = error.what();
      return false;
    }
  };
  Expr element = indexer.add(indexer.scale(indexer.row(), plan.columns), indexer.column());
  if (size == plan.rows * plan.columns && attempt(Level::element, main, indexer, element)) return;
  if (size == plan.rows && attempt(Level::row, main, indexer, indexer.row())) return;
  if (size == plan.columns && plan.column_reductions &&
      attempt(Level::column, end, *plan.combine_indexer, plan.combine_indexer->column()))
    return;
  throw NoPlan(reason);
}

// Items reached from the stores and reductions. Other items (from failed attempts) cost nothing.
std::vector<bool> reached(const Plan& plan) {
  std::vector<bool> need(plan.items.size());
  for (const auto& store : plan.stores)
    if (store.level != Level::column) need[store.item] = true;
  for (const auto& reduction : plan.reductions) need[reduction.item] = true;
  for (size_t i = plan.items.size(); i-- > 0;) {
    if (!need[i]) continue;
    for (int arg : plan.items[i].args) need[arg] = true;
    for (int id : plan.indexer->items(plan.items[i].index)) need[id] = true;
    for (const auto& guard : plan.items[i].guards)
      for (int id : plan.indexer->items(guard.at)) need[id] = true;
  }
  return need;
}

void weigh(Plan& plan) {
  auto need = reached(plan);
  double dear_row = 0, dear_column = 0, per_row = 2,
         per_column = 0;  // a value per row uses one lane, but does not delay others
  for (size_t i = 0; i < plan.items.size(); ++i) {
    if (!need[i]) continue;
    const Item& item = plan.items[i];
    double cost = item.cost;
    if (item.kind == ItemKind::load || item.kind == ItemKind::random || item.kind == ItemKind::iota) {
      Lanes lanes = plan.indexer->lanes(item.index);
      bool contiguous =
          lanes.regular && (lanes.stride == 0 || lanes.stride == 1 || item.kind == ItemKind::iota);
      if (!contiguous && item.varies) ++plan.irregular, cost += 30;
      if (plan.indexer->divides_column(item.index)) cost += 4;
    }
    for (const Guard& guard : item.guards)
      if (plan.indexer->varies_with_column(guard.at))
        cost += plan.indexer->lanes(guard.at).stride == 0 ? 1 : 4;
    const double times = item.varies ? 1 : 0.25;
    (item.varies ? per_column : per_row) += cost * times;
    if (item.cost >= kDear) (item.varies ? dear_column : dear_row) += item.cost * times;
  }
  double vectors = static_cast<double>((plan.columns + Indexer::kLanes - 1) / Indexer::kLanes);
  plan.dear = static_cast<double>(plan.rows) * (dear_row + vectors * dear_column);
  plan.work = static_cast<double>(plan.rows) * (per_row + vectors * (per_column + 1));
}

PlanResult plan_in(const Graph& body, const Space& space) {
  Plan plan;
  plan.rows = space.rows;
  plan.columns = space.columns;
  plan.indexer = std::make_shared<Indexer>(space.rows, space.columns);
  plan.combine_indexer = std::make_shared<Indexer>(1, space.columns);
  Evaluator main(body, plan, *plan.indexer, plan.items, false),
      end(body, plan, *plan.combine_indexer, plan.combine_items, true);
  try {
    for (const Node& node : body.nodes) {
      if (op_row(node.op).kind != OpKind::reduce) continue;
      ReduceForm form = form_of(body, node);
      (form.column ? plan.column_reductions : plan.row_reductions) = true;
      int item = main.at(node.inputs[0], element_index(body, node, form, *plan.indexer));
      plan.reductions.push_back({&node, form.column, item, plan.items[item].stage});
      int id = static_cast<int>(plan.reductions.size()) - 1;
      (form.column ? end : main).set_reduction(node.outputs[0], id);
      if (form.column)
        main.set_reduction(node.outputs[0], id);
      else
        end.set_reduction(node.outputs[0], id);
    }
    for (size_t i = 0; i < body.outputs.size(); ++i) place_output(body, i, plan, main, end);
  } catch (const NoPlan& error) { return {std::nullopt, error.what()}; }
  for (const auto& reduction : plan.reductions) plan.stages = std::max(plan.stages, reduction.stage + 1);
  for (const auto& store : plan.stores)
    if (store.level == Level::element) plan.stages = std::max(plan.stages, plan.items[store.item].stage + 1);
  weigh(plan);
  return {std::move(plan), ""};
}

}  // namespace

PlanResult plan_body(const Graph& body) {
  PlanResult best;
  for (const Space& space : candidate_spaces(body, best.reason)) {
    PlanResult made = plan_in(body, space);
    if (!made.plan) {
      if (!best.plan) best.reason = made.reason;
    } else if (!best.plan || made.plan->work < best.plan->work * 0.95) {
      best = std::move(made);
    }
  }
  return best;
}

}  // namespace lockstep::compiler::codegen
