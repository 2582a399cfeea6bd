// The inputs of a step, and its work once before the micro-batches.
#include <algorithm>
#include <utility>

#include "compiler/program/build/builder.h"
#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

StepBuilder::StepBuilder(const StepPlan& plan, StepBlocks blocks, const ProgramRank& rank)
    : plan_(plan),
      whole_(plan.phases.whole),
      rank_(rank),
      held_(whole_.mesh, rank.mesh.coordinate(rank.rank)),
      kept_(kept_gradients(plan)),
      writer_(program_),
      at_(whole_.values.size()) {
  sum_ = sum_plan_of(plan, rank);
  slots_ = LanePlan{plan.micro_batches, plan.lanes, sum_.lanes.ranks, sum_.lanes.rank, plan.order}.slots(
      sum_.lanes.rank);
  for (const auto* weights : {&plan.phases.streamed, &plan.phases.seed_streamed})
    for (const auto& weight : *weights)
      streamed_.insert({whole_.node(weight.start).outputs[0], weight.tensor});
  std::vector<std::string> data_dims;
  for (const auto& name : rank.mesh.dim_names)
    if (is_data_dim(name)) data_dims.push_back(name);
  if (data_dims.size() == 1) writer_.name_data_dims(data_dims[0]);
  program_.rank = rank.rank;
  program_.mesh = text(rank.mesh);
  program_.micro_batches = plan.micro_batches, program_.lanes = plan.lanes;
  add_block("count", std::move(blocks.count));
  add_block("seed", std::move(blocks.seed));
  add_block("body", std::move(blocks.body));
  add_block("copies", std::move(blocks.copies));
  add_block("maxima", std::move(blocks.maxima));
  add_block("cast", std::move(blocks.cast));
  add_block("scales", std::move(blocks.scales));
  for (size_t f = 0; f < blocks.fragments.size(); ++f)
    add_block(str("tail ", f), std::move(blocks.fragments[f]));
}

StepProgram StepBuilder::build() {
  together_ = find_together();
  if (together_ > 1)
    writer_.fit(arenas_[kBodyBlock].own[0], together_ * slot_stride(block(kBodyBlock).own_bytes));
  declare_inputs();
  prepare_head();
  make_buckets();
  make_rows();
  make_fetches();
  for (const auto& step : plan_.phases.tail)
    if (step.node.valid()) prepare(whole_.node(step.node));
  place_row_squares();
  gates_ = update_gates(whole_);
  writer_.into(program_.refresh);
  round_weights();
  writer_.into(program_.instrs);
  head();
  find_replicas();
  counts();
  fetch_rows();
  bodies();
  tail();
  name_outputs();
  return std::move(program_);
}

StepProgram StepBuilder::build_inspection() {
  inspect();
  return std::move(program_);
}

// Each data rank gets a lane of one micro-batch; the caller chooses its data.
StepProgram StepBuilder::build_recomputation() {
  const int ranks = sum_.lanes.ranks;
  sum_.lanes = {ranks, ranks, ranks, sum_.lanes.rank, LaneOrder::contiguous};
  slots_ = 1;
  int64_t outputs = 0;
  for (const auto& group : block(kBodyBlock).groups) outputs += static_cast<int64_t>(group.size());
  answers_ =
      writer_.region(Kind::result, "checksums of answers", outputs * static_cast<int64_t>(sizeof(uint64_t)));
  inspect();
  return std::move(program_);
}

void StepBuilder::inspect() {
  inspects_ = true;
  declare_inputs();
  prepare_head();
  make_fetches();
  writer_.into(program_.instrs);
  head();
  counts();
  fetch_rows();
  bodies();
}

void StepBuilder::add_block(std::string name, ProgramBlock block) {
  Arenas arenas;
  const auto b = static_cast<int>(program_.blocks.size());
  const bool none = b >= kCopiesBlock && b < kTailBlocks && block.outputs.empty();
  for (int64_t j = 0; j < block.micro_batches && !none; ++j)
    arenas.own.push_back(writer_.region(
        Kind::arena, block.micro_batches > 1 ? str(name, " of micro-batch ", j) : name, block.own_bytes));
  for (size_t j = 0; block.host_bytes && j < arenas.own.size(); ++j) {
    arenas.on_host.push_back(writer_.region(
        Kind::arena, program_.regions[arenas.own[j].region].name + " on the host", block.host_bytes));
    program_.regions.back().on_host = true;
  }
  if (block.shared_bytes) arenas.shared = writer_.region(Kind::arena, name + " shared", block.shared_bytes);
  arenas_.push_back(std::move(arenas));
  program_.block_names.push_back(std::move(name));
  program_.blocks.push_back(std::move(block));
}

void StepBuilder::declare_inputs() {
  int64_t scalars = 0;
  for (const auto& input : whole_.inputs) scalars += input.kind == InputKind::scalar ? 16 : 0;
  const Span block = writer_.region(Kind::input, "scalars", scalars + 32);
  vote_ = block.part(scalars, 16);
  limits_ = {block.part(scalars + 16, 4), block.part(scalars + 20, 4)};
  wanted_ = block.part(scalars + 24, 8);
  int64_t at = 0;
  for (const auto& input : whole_.inputs) {
    const Value& value = whole_[input.value];
    if (input.kind == InputKind::scalar) {
      at_[input.value] = block.part(at, size_of_value(value));
      at += 16;
      if (input.name == "rng.sample")
        sample_ = input.value, samples_ = writer_.region(Kind::input, input.name,
                                                         std::max<int64_t>(1, slots_) * size_of_value(value));
    } else if (input.kind == InputKind::state) {
      at_[input.value] =
          writer_.region(Kind::state, input.name, held_.of(value).count * size_of_value(value));
      program_.regions.back().on_host = plan_.on_host.count(input.name) > 0;
    }
  }
  for (const auto& field : plan_.fields) {
    const int64_t bytes = lockstep::bytes_of(field.dtype, field.shape);
    const int64_t stride = slot_stride(bytes);
    batch_[field.name] = {writer_.region(Kind::input, field.name, slots_ * stride), bytes, stride};
  }
}

// Places of the inputs of a phase; for a micro-batch, its batch fields and its sample number.
std::vector<Span> StepBuilder::inputs_of(const Phase& phase, int64_t slot) const {
  std::vector<Span> out;
  for (size_t i = 0; i < phase.graph.inputs.size(); ++i) {
    const GraphInput& input = phase.graph.inputs[i];
    if (input.kind == InputKind::batch) {
      LS_CHECK(slot >= 0, "batch field ", input.name, " is read outside a micro-batch");
      const Field& field = batch_.at(input.name);
      out.push_back(field.all.part(slot * field.stride, field.bytes));
    } else if (slot >= 0 && sample_ != kNoValue && phase.inputs[i] == sample_) {
      const int64_t size = size_of_value(whole_[sample_]);
      out.push_back(samples_.part(slot * size, size));
    } else {
      out.push_back(at_[phase.inputs[i]]);
    }
  }
  return out;
}

std::vector<int64_t> StepBuilder::strides_of(const Phase& phase) const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < phase.graph.inputs.size(); ++i)
    out.push_back(phase.graph.inputs[i].kind == InputKind::batch
                      ? batch_.at(phase.graph.inputs[i].name).stride
                  : sample_ != kNoValue && phase.inputs[i] == sample_ ? size_of_value(whole_[sample_])
                                                                      : 0);
  return out;
}

// Not with fetched or gathered rows, values that wait in host memory, or collectives of model dims: each of
// these belongs to one micro-batch.
bool StepBuilder::can_run_together() const {
  const ProgramBlock& body = block(kBodyBlock);
  const auto& phases = plan_.phases;
  const auto is_start = [](const BlockCall& call) { return call.kind == BlockCall::Kind::start; };
  return sum_.lanes.order == LaneOrder::contiguous && phases.rows.empty() && phases.fetches.empty() &&
         body.micro_batches == 1 && body.away.empty() &&
         std::none_of(body.calls.begin(), body.calls.end(), is_start);
}

int64_t StepBuilder::find_together() const {
  if (slots_ < 2 || !can_run_together()) return 1;
  int64_t most = std::min(plan_.options.together, slots_), others = 0;
  for (size_t b = 0; b < program_.blocks.size(); ++b)
    if (b != kBodyBlock) others += program_.blocks[b].arena_bytes();
  const int64_t each = slot_stride(block(kBodyBlock).own_bytes), budget = plan_.options.memory_budget;
  if (budget != kRecomputeFull && each > 0) most = std::min(most, (budget - others) / each);
  while (most > 1 && slots_ % most) --most;
  return std::max<int64_t>(1, most);
}

RunBlock StepBuilder::run_of(int b, const std::vector<Span>& inputs, int first, int last,
                             int64_t turn) const {
  RunBlock out{b, first, last, inputs, arenas_[b].own[turn], arenas_[b].shared};
  if (b == kBodyBlock && together_ > 1)
    out.micro_batches = together_, out.strides = strides_of(plan_.phases.body);
  return out;
}

// The calls [first, last) of a block; `turn`: the number of its arena.
void StepBuilder::run(int b, const std::vector<Span>& inputs, int first, int last, int64_t turn) {
  if (first < last) writer_.put(run_of(b, inputs, first, last, turn));
}

void StepBuilder::run_all(int b, const std::vector<Span>& inputs) {
  run(b, inputs, 0, static_cast<int>(block(b).calls.size()));
}

Span StepBuilder::output_of(int b, size_t o, const std::vector<Span>& inputs, int64_t turn) const {
  return lockstep::compiler::output_of(block(b), run_of(b, inputs, 0, 0, turn), o);
}

void StepBuilder::round_weights() {
  prepare_rounding(false);
  for (NodeId n : plan_.phases.head)
    if (const Node& node = whole_.node(n); node.op == ops::convert) {
      UpdateTensors::Tensor tensor{
          .node = n, .count = held_.of(whole_[node.inputs[0]]).count, .inputs = {at_[node.inputs[0]]}};
      if (at_[node.outputs[0]].there()) tensor.outputs = {at_[node.outputs[0]]};
      round_for_float8(tensor, state_input(node.inputs[0]), false);
      updates_.tensors.push_back(std::move(tensor));
    }
  flush_updates();
}

void StepBuilder::head() {
  for (NodeId n : plan_.phases.head)
    if (whole_.node(n).op != ops::convert) node(n);
  cast_own_rows();
}

// For rows sent in float8: finds this rank's largest magnitudes, gathers those of all ranks, and casts its
// rows.
void StepBuilder::cast_own_rows() {
  const Phases::OwnRows& own = plan_.phases.own_rows;
  auto run_phase = [&](int b, const Phase& phase) {
    const auto inputs = inputs_of(phase, -1);
    run_all(b, inputs);
    for (size_t o = 0; o < phase.outputs.size(); ++o) at_[phase.outputs[o]] = output_of(b, o, inputs);
  };
  run_phase(kMaximaBlock, own.maxima);
  for (NodeId n : own.gathers) node(n);
  run_phase(kCastBlock, own.cast);
}

// Before weights are rounded for float8 products: zeroes the places of their largest magnitudes, and computes
// the scales by which updates round, the current ones and those of the next step. Before the first step both
// are the same.
void StepBuilder::prepare_rounding(bool of_step) {
  const Phases::OwnRows& own = plan_.phases.own_rows;
  if (!own.updated.empty()) writer_.put(ZeroSpan{largest_});
  if (own.scales.outputs.empty()) return;
  std::vector<Span> inputs = inputs_of(own.scales, -1);
  const size_t histories = inputs.size() / 2;
  if (!of_step) std::copy_n(inputs.begin(), histories, inputs.begin() + static_cast<ptrdiff_t>(histories));
  for (const Span& span : inputs) LS_CHECK(span.there(), "a history is not known before the first update");
  run_all(kScalesBlock, inputs);
  const size_t groups = own.scales.outputs.size() / 2;
  scales_.clear();
  for (const auto& one : own.updated) {
    if (!one.by_scale()) continue;
    const auto of = [&](size_t output) {
      return output_of(kScalesBlock, output, inputs).part(static_cast<int64_t>(4 * one.place), 4);
    };
    scales_[one.state] = {of(one.group), of(groups + one.group)};
  }
}
void StepBuilder::round_for_float8(UpdateTensors::Tensor& tensor, const std::string& state,
                                   bool gated) const {
  const auto found = updated_.find(state);
  if (found == updated_.end()) return;
  const auto& one = plan_.phases.own_rows.updated[found->second];
  tensor.largest = at_[one.largest];
  if (!one.by_scale()) return;
  tensor.copy = at_[one.rows], tensor.copy_dtype = whole_[one.rows].dtype;
  const auto& [before, scale] = scales_.at(state);
  tensor.scale = scale;
  if (gated) tensor.scale_before = before;
}

void StepBuilder::counts() {
  const auto counted = static_cast<int64_t>(plan_.phases.counts.size());
  const Span totals = writer_.region(Kind::result, "counts and votes", (counted + 2) * 8);
  program_.votes = totals.part(counted * 8, 16);
  for (int64_t c = 0; c < counted; ++c) at_[summed_count(plan_.phases.counts[c])] = totals.part(c * 8, 8);
  writer_.put(ZeroSpan{totals});
  int64_t before = 0;  // this rank's micro-batches so far
  for (int64_t j = 0; j < slots_; ++j) {
    if (micro_batch(j) < 0) continue;
    writer_.set_micro_batch(micro_batch(j));
    const auto inputs = inputs_of(plan_.phases.count, j);
    run_all(kCountBlock, inputs);
    for (int64_t c = 0; c < counted; ++c)
      writer_.put(AddCounts{totals.part(c * 8, 8), output_of(kCountBlock, c, inputs)});
    keep_ids(j, before++, inputs);
  }
  writer_.set_micro_batch(-1);
  writer_.put(AddCounts{totals.part(counted * 8, 16), vote_});
  all_reduce(std::string(kDataDims), totals, "count");
  // Counts are equal along a model dim; votes are not.
  for (const auto& name : rank_.mesh.dim_names)
    if (!is_data_dim(name)) all_reduce(name, totals.part(counted * 8, 16), "votes");
  begin_seed();
}

void StepBuilder::all_reduce(const std::string& along, Span at, const std::string& label) {
  if (held_.size(along) < 2) return;
  writer_.wait(writer_.start({.verb = Verb::all_reduce,
                              .along = along,
                              .dtype = DType::i64,
                              .send = {at.bytes / 8},
                              .from = at,
                              .to = at,
                              .label = label}));
}

// The reader of the term is the start of its all_reduce, whose reader is the wait.
ValueId StepBuilder::summed_count(NodeId count) const {
  ValueId v = whole_.node(count).outputs[0];
  for (int hop = 0; hop < 2; ++hop)
    for (const Node& node : whole_.nodes)
      if (std::find(node.inputs.begin(), node.inputs.end(), v) != node.inputs.end()) {
        v = node.outputs[0];
        break;
      }
  return v;
}

}  // namespace lockstep::compiler
