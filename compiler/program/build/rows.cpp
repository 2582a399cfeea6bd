// Rows of sparse tables: the rows of all micro-batches are stored one after another, gathered once, and
// summed; the table gets the new rows.
#include <utility>

#include "compiler/program/build/builder.h"
#include "core/base/error.h"
#include "core/mesh/layout.h"

namespace lockstep::compiler {

void StepBuilder::make_rows() {
  if (plan_.phases.rows.empty()) return;
  int64_t mine = 0;
  for (int64_t slot = 0; slot < slots_; ++slot) rows_before_.push_back(mine), mine += micro_batch(slot) >= 0;
  for (const auto& each : plan_.phases.rows) {
    const Node& gather = whole_.node(each.gather);
    const std::string& name = gather.attrs.word("of");
    Rows& rows = rows_.emplace_back();
    rows.count = numel(whole_[gather.inputs[0]].shape), rows.elements = numel(whole_[gather.inputs[1]].shape);
    const int64_t all = plan_.micro_batches;
    rows.ids = writer_.region(Kind::partial, "ids of " + name, all * rows.count * kWord);
    rows.rows = writer_.region(Kind::partial, "rows of " + name, all * rows.elements * kWord);
    if (sum_.lanes.ranks == 1) continue;
    const int64_t each_one = (rows.count + rows.elements) * kWord;
    rows.send = writer_.region(Kind::staging, "rows of " + name + " send", mine * each_one);
    rows.receive = writer_.region(Kind::staging, "rows of " + name + " receive", all * each_one);
  }
}

size_t StepBuilder::rows_of(ValueId handle) const {
  for (size_t r = 0; r < rows_.size(); ++r)
    if (whole_.node(plan_.phases.rows[r].gather).outputs[0] == handle) return r;
  throw InternalError(str("%", handle, " gathers no rows"));
}

// On one data rank, copies them to their place among all; else to the send buffer: ids, then rows, one
// micro-batch after another.
void StepBuilder::add_rows(const Turn& turn, size_t r) {
  const int64_t micro = micro_batch(turn.slot);
  if (micro < 0) return;
  const Rows& to = rows_[r];
  auto from = [&](int output) { return output_of(kBodyBlock, output, turn.inputs, turn.arena); };
  const Span ids = from(plan_.phases.rows[r].ids), rows = from(plan_.phases.rows[r].rows);
  if (sum_.lanes.ranks == 1) {
    writer_.put(CopySpans{{{words(to.ids, micro * to.count, to.count), ids},
                           {words(to.rows, micro * to.elements, to.elements), rows}}});
    return;
  }
  const int64_t at = rows_before_[turn.slot] * (to.count + to.elements);
  writer_.put(
      CopySpans{{{words(to.send, at, to.count), ids}, {words(to.send, at + to.count, to.elements), rows}}});
}

// Words travel as integers: nothing is added in transit.
void StepBuilder::start_rows(const Node& node) {
  Rows& rows = rows_[rows_of(node.outputs[0])];
  const LanePlan& lanes = sum_.lanes;
  if (lanes.ranks == 1) return;
  StartCollective all{.verb = Verb::all_gather, .along = node.attrs.word("mesh_dim"), .dtype = DType::i32};
  for (int rank = 0; rank < lanes.ranks; ++rank) {
    int64_t count = 0;
    for (int64_t slot = 0; slot < lanes.slots(rank); ++slot) count += lanes.micro_batch(rank, slot) >= 0;
    all.receive.push_back(count * (rows.count + rows.elements));
  }
  all.send.assign(lanes.ranks, all.receive[lanes.rank]);
  all.from = rows.send, all.to = rows.receive;
  all.label = "rows " + node.attrs.word("of");
  rows.flight = writer_.start(std::move(all), node.at);
}

void StepBuilder::wait_for_rows(const Node& node) {
  Rows& rows = rows_[rows_of(node.inputs[0])];
  at_[node.outputs[0]] = rows.ids, at_[node.outputs[1]] = rows.rows;
  const LanePlan& lanes = sum_.lanes;
  if (lanes.ranks == 1) return;
  writer_.finish(rows.flight);
  CopySpans unpack;
  int64_t from = 0;
  for (int rank = 0; rank < lanes.ranks; ++rank)
    for (int64_t slot = 0; slot < lanes.slots(rank); ++slot) {
      const int64_t micro = lanes.micro_batch(rank, slot);
      if (micro < 0) continue;
      unpack.copies.push_back(
          {words(rows.ids, micro * rows.count, rows.count), words(rows.receive, from, rows.count)});
      from += rows.count;
      unpack.copies.push_back(
          {words(rows.rows, micro * rows.elements, rows.elements), words(rows.receive, from, rows.elements)});
      from += rows.elements;
    }
  writer_.put(std::move(unpack), node.at);
}

// For a split table, only the rows of ids that this rank owns.
void StepBuilder::sum_rows(const Node& node) {
  const int64_t rows = node.attrs.integer("rows");
  std::pair<int64_t, int64_t> owned{0, rows};
  if (node.attrs.has("owners")) {
    const std::string& along = node.attrs.word("owners");
    owned = balanced(rows, held_.size(along), rank_.mesh.coordinate(rank_.rank)[rank_.mesh.dim(along)]);
  }
  writer_.put(SumRows{.ids = at_[node.inputs[0]],
                      .rows = at_[node.inputs[1]],
                      .width = whole_[node.inputs[1]].shape[1],
                      .table_rows = rows,
                      .first = owned.first,
                      .owned = owned.second,
                      .out_ids = at_[node.outputs[0]],
                      .out_rows = at_[node.outputs[1]],
                      .squares = at_[node.outputs[2]]},
              node.at);
}

// A gradient that consists only of rows of some ids: the update looks up the ones that this rank updates.
void StepBuilder::update_by_rows(const Node& spread, int input, UpdateTensors::Tensor& tensor) const {
  const Value& gradient = whole_[spread.outputs[0]];
  tensor.by_rows = input;
  tensor.ids = at_[spread.inputs[0]], tensor.rows = at_[spread.inputs[1]];
  tensor.width = gradient.shape[1];
  tensor.first = tensor.width ? held_.of(gradient).first / tensor.width : 0;
}

void StepBuilder::put_rows(const Node& node) {
  if (checked_.sums.there()) writer_.put(std::exchange(checked_, {}));
  at_[node.outputs[0]] = at_[node.inputs[0]];
  PutRows put{.table = at_[node.inputs[0]],
              .ids = at_[node.inputs[1]],
              .rows = at_[node.inputs[2]],
              .width = whole_[node.inputs[2]].shape[1],
              .gates = {},
              .limits = {}};
  gates_of(node, put.gates, put.limits);
  writer_.put(std::move(put), node.at);
}

}  // namespace lockstep::compiler
