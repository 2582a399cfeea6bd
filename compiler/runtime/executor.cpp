// Binds instructions to memory, groups and kernels once, and enqueues them in order.
#include "compiler/runtime/executor.h"

#include <algorithm>
#include <chrono>

#include "compiler/program/show/print.h"
#include "compiler/runtime/update.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
// The work enqueued before an event of the same device.
class EnqueuedWork : public Work {
 public:
  explicit EnqueuedWork(std::shared_ptr<Event> end) : end_(std::move(end)) {}
  bool done() override { return end_->done(); }
  void wait(Stream& stream) override { stream.wait(end_); }

 private:
  std::shared_ptr<Event> end_;
};
}  // namespace

void begin_sums(Reductions& reductions, const SumForms& forms) {
  for (const size_t lefts : forms.lefts)
    if (lefts <= reductions.most_lefts()) reductions.begin_accumulate(lefts);
  for (const auto& [merges, sources] : forms.trees)
    if (merges.size() <= reductions.most_sources()) reductions.begin_sum(merges, sources);
}

Executor::Executor(Parts parts)
    : parts_(std::move(parts)),
      program_(parts_.program),
      collectives_(parts_.mesh, parts_.device),
      flights_(program_.flights) {
  take_memory(false);
  find_groups();
  for (size_t b = 0; b < program_.blocks.size(); ++b) {
    const bool other = b == kBodyBlock && parts_.body_options;
    runners_.push_back(
        std::make_unique<BlockRunner>(program_.blocks[b], other ? parts_.body_kernels : parts_.kernels,
                                      other ? *parts_.body_options : parts_.options, &collectives_));
  }
  refresh_ = bound(program_.refresh);
  begin_sums(parts_.reductions, sum_forms(program_));
}

// Memory of sums and their packed data is needed only when a step runs, but not while a checkpoint is loaded.
bool Executor::is_of_steps(const Region& region) {
  return region.kind == Region::Kind::partial || region.kind == Region::Kind::staging;
}

void Executor::take_memory(bool of_steps) {
  memory_.resize(program_.regions.size(), nullptr);
  for (size_t r = 0; r < program_.regions.size(); ++r) {
    const Region& region = program_.regions[r];
    if (is_of_steps(region) != of_steps) continue;
    if (parts_.given) memory_[r] = parts_.given(r);
    if (memory_[r]) continue;
    owned_.emplace_back(static_cast<size_t>(region.bytes),
                        region.on_host ? parts_.device.staging() : parts_.device.memory());
    memory_[r] = owned_.back().data();
  }
}

void Executor::find_groups() {
  auto add = [&](const std::string& along) {
    Group* group = &collectives_.group(along);
    if (group->size() > 1 && std::find(groups_.begin(), groups_.end(), group) == groups_.end())
      groups_.push_back(group);
  };
  for (const Instr& instr : program_.instrs)
    if (const auto* start = std::get_if<StartCollective>(&instr.what)) add(start->along);
  for (const ProgramBlock& block : program_.blocks)
    for (const BlockCall& call : block.calls)
      if (call.kind == BlockCall::Kind::start) add(block.graph.node(call.node).attrs.word("mesh_dim"));
}

std::byte* Executor::at(const Span& span) const {
  return span.there() ? memory_[span.region] + span.offset : nullptr;
}

void Executor::record(StepRecorder* recorder) {
  recorder_ = recorder;
  for (auto& runner : runners_) runner->record(recorder);
}

void Executor::give_up_when(const std::function<bool()>& asked) {
  may_give_up_ = asked != nullptr;
  ends_.clear();
  runners_[kBodyBlock]->give_up_when(asked);
}
void Executor::stay_near(Stream& stream) {
  constexpr size_t kAhead = 2;  // so that the device has work while the host enqueues
  if (!may_give_up_ || parts_.device.addressable()) return;
  ends_.push_back(stream.record());
  if (ends_.size() <= kAhead) return;
  wait_on_host(*ends_.front(), groups_);
  ends_.pop_front();
}

void Executor::refresh(Stream& stream) { enqueue(refresh_, stream); }
void Executor::prepare() {
  if (!step_.empty()) return;
  take_memory(true);
  step_ = bound(program_.instrs);
}
void Executor::rebind() {
  for (size_t r = 0; r < program_.regions.size(); ++r)
    if (std::byte* now = parts_.given ? parts_.given(r) : nullptr) memory_[r] = now;
  refresh_ = bound(program_.refresh);
  if (!step_.empty()) step_ = bound(program_.instrs);
}
std::vector<Executor::Bound> Executor::bound(const std::vector<Instr>& instrs) {
  std::vector<Bound> out;
  for (const Instr& instr : instrs) out.push_back(bind(instr));
  return out;
}
void Executor::run(Stream& stream) {
  prepare();
  enqueue(step_, stream);
}

void Executor::enqueue(const std::vector<Bound>& list, Stream& stream) {
  for (size_t i = 0; i < list.size(); ++i) {
    const Bound& one = list[i];
    StepRecorder* recorder = &list == &step_ ? recorder_ : nullptr;
    if (recorder) recorder->enter(static_cast<int>(i), stream);
    if (!timing()) {
      one.action(stream);
      if (recorder) recorder->leave(stream);
      continue;
    }
    const auto began = std::chrono::steady_clock::now();
    one.action(stream);
    stream.synchronize();
    const std::string name =
        one.block < 0 ? std::string(one.kind) : str(one.kind, " ", program_.block_names[one.block]);
    seconds_[name] += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }
}

Executor::Bound Executor::bind(const Instr& instr) {
  const auto* run = std::get_if<RunBlock>(&instr.what);
  return {std::visit(
              [&](const auto& what) {
                if constexpr (std::is_same_v<std::decay_t<decltype(what)>, ShowOutput>)
                  return bind(what, instr.micro_batch);
                else
                  return bind(what);
              },
              instr.what),
          kind_of(instr), run ? run->block : -1};
}

Executor::Action Executor::bind(const RunBlock& run) {
  BlockRunner& runner = *runners_[run.block];
  BlockRunner::Memory memory;
  for (const Span& input : run.inputs) memory.inputs.push_back(at(input));
  memory.own = at(run.own), memory.shared = at(run.shared);
  (void)of_micro_batch(run, 0);  // checks the run
  memory.micro_batches = run.micro_batches, memory.own_stride = run.own_stride();
  memory.strides = run.strides, memory.device = &parts_.device;
  auto& flights = block_flights_[{run.block, run.own.region}];
  flights.resize(runner.flights());
  memory.flights = &flights;
  return [this, &runner, first = run.first, last = run.last, body = run.block == kBodyBlock,
          memory = std::move(memory)](Stream& stream) {
    runner.run(first, last, memory, stream);
    if (body) stay_near(stream);
  };
}

Executor::Action Executor::bind(const StartCollective& start) {
  return [this, flight = start.flight,
          bound = collectives_.bind(start, at(start.from), at(start.to))](Stream& stream) {
    flights_[flight] = bound.start(stream);
    if (recorder_) recorder_->started(bound, flights_[flight], stream);
  };
}
Executor::Action Executor::bind(const Wait& wait) {
  return [this, flight = wait.flight](Stream& stream) {
    const auto work = std::move(flights_[flight]);
    LS_CHECK(work, "flight ", flight, " is not in progress");
    work->wait(stream);
  };
}

Executor::Action Executor::bind(const Accumulate& add) {
  std::vector<Reductions::Run> runs;
  std::vector<const float*> lefts;
  for (const auto& piece : add.pieces)
    runs.push_back({piece.at, at(piece.from), piece.from.bytes / static_cast<int64_t>(size_of(piece.dtype)),
                    piece.dtype});
  for (const Span& left : add.lefts) lefts.push_back(as<float>(left));
  return [this, runs = std::move(runs), lefts = std::move(lefts), to = as<float>(add.to)](Stream& stream) {
    parts_.reductions.accumulate(runs, lefts, to, stream);
  };
}

Executor::Action Executor::bind(const SumTrees& all) {
  std::vector<Reductions::Sum> sums;
  for (const auto& tree : all.trees) {
    Reductions::Sum& sum = sums.emplace_back();
    for (const auto& source : tree.sources) sum.sources.emplace_back(at(source.at), source.dtype);
    sum.merges = tree.merges;
    sum.rows = tree.rows, sum.width = tree.width;
    sum.out = tree.stays() ? nullptr : as<float>(tree.out);
    sum.row_squares = as<double>(tree.row_squares);
  }
  return [this, sums = std::move(sums)](Stream& stream) { parts_.reductions.sum(sums, stream); };
}

Executor::Action Executor::bind(const CopySpans& all) {
  std::vector<Reductions::Copy> copies;
  for (const auto& copy : all.copies)
    copies.push_back({at(copy.to), at(copy.from), static_cast<size_t>(copy.from.bytes)});
  return [this, copies = std::move(copies)](Stream& stream) { parts_.reductions.copy(copies, stream); };
}
Executor::Action Executor::bind(const StartCopies& start) {
  std::unique_ptr<Stream>& queue = start.to_host ? to_host_ : to_device_;
  if (!queue) queue = parts_.device.make_stream();
  std::vector<Reductions::Copy> copies;
  for (const auto& copy : start.copies)
    copies.push_back({at(copy.to), at(copy.from), static_cast<size_t>(copy.from.bytes)});
  return [this, copies = std::move(copies), flight = start.flight, queue = queue.get()](Stream& stream) {
    queue->wait(stream.record());
    for (const auto& copy : copies) parts_.device.copy(copy.to, copy.from, copy.bytes, *queue);
    flights_[flight] = std::make_shared<EnqueuedWork>(queue->record());
  };
}
Executor::Action Executor::bind(const ZeroSpan& zero) {
  return [this, to = at(zero.at), bytes = zero.at.bytes](Stream& stream) {
    parts_.device.zero(to, bytes, stream);
  };
}
Executor::Action Executor::bind(const AddCounts& add) {
  return [this, totals = as<int64_t>(add.totals), addend = as<const int64_t>(add.addend),
          count = add.totals.bytes / static_cast<int64_t>(sizeof(int64_t))](Stream& stream) {
    parts_.reductions.add(totals, addend, count, stream);
  };
}

Executor::Action Executor::bind(const UpdateTensors& update) {
  std::vector<UpdateCall> calls;
  for (const auto& tensor : update.tensors) {
    UpdateCall& call = calls.emplace_back();
    call.graph = &parts_.whole;
    call.node = &parts_.whole.node(tensor.node);
    call.count = tensor.count;
    for (const Span& input : tensor.inputs) call.inputs.push_back(at(input));
    for (const Span& output : tensor.outputs) call.outputs.push_back(at(output));
    if (parts_.kernels) {
      call.copy = at(tensor.copy);
      call.scale = at(tensor.scale), call.scale_before = at(tensor.scale_before);
      call.largest = at(tensor.largest);
    }
    call.copy_dtype = tensor.copy_dtype;
    call.halves = tensor.halves;
    call.by_rows = tensor.by_rows;
    call.rows = {.ids = as<const int32_t>(tensor.ids),
                 .rows = as<const float>(tensor.rows),
                 .count = tensor.ids.bytes / static_cast<int64_t>(sizeof(int32_t)),
                 .width = tensor.width,
                 .first = tensor.first};
    for (size_t k = 0; k < update.gates.size(); ++k) {
      call.gates.push_back(at(update.gates[k]));
      call.gates.push_back(at(update.limits[k]));
    }
  }
  return bind_updates(calls, parts_.kernels, parts_.options);
}

Executor::Action Executor::bind(const SumRows& sum) {
  const Reductions::Rows rows{.ids = as<const int32_t>(sum.ids),
                              .rows = as<const float>(sum.rows),
                              .count = sum.ids.bytes / static_cast<int64_t>(sizeof(int32_t)),
                              .width = sum.width,
                              .table_rows = sum.table_rows,
                              .first = sum.first,
                              .owned = sum.owned,
                              .out_ids = as<int32_t>(sum.out_ids),
                              .out_rows = as<float>(sum.out_rows),
                              .squares = as<double>(sum.squares)};
  return [this, rows](Stream& stream) { parts_.reductions.sum_rows(rows, stream); };
}
Executor::Action Executor::bind(const TakeRows& take) {
  Reductions::Taken taken{.table = as<const float>(take.table),
                          .first = take.first,
                          .rows = take.table.bytes / (take.width * static_cast<int64_t>(sizeof(float))),
                          .width = take.width,
                          .table_rows = take.table_rows,
                          .parts = {}};
  for (const auto& piece : take.pieces)
    taken.parts.push_back({as<const int32_t>(piece.ids), as<float>(piece.to),
                           piece.ids.bytes / static_cast<int64_t>(sizeof(int32_t))});
  return [this, taken](Stream& stream) { parts_.reductions.take_rows(taken, stream); };
}
Executor::Action Executor::bind(const PutRows& put) {
  Reductions::Placed placed{
      .table = as<float>(put.table),
      .ids = as<const int32_t>(put.ids),
      .rows = as<const float>(put.rows),
      .count = put.ids.bytes / static_cast<int64_t>(sizeof(int32_t)),
      .width = put.width,
      .table_rows = put.width ? put.table.bytes / (put.width * static_cast<int64_t>(sizeof(float))) : 0,
      .gates = {}};
  const std::vector<ValueId> gates = update_gates(parts_.whole);
  for (size_t k = 0; k < put.gates.size(); ++k)
    placed.gates.push_back({at(put.gates[k]), parts_.whole[gates[k]].dtype, as<const float>(put.limits[k])});
  return [this, placed](Stream& stream) { parts_.reductions.put_rows(placed, stream); };
}

Executor::Action Executor::bind(const SumSquares& sum) {
  std::vector<Reductions::Doubles> addends;
  for (const Span& span : sum.addends)
    addends.push_back({as<const double>(span), span.bytes / static_cast<int64_t>(sizeof(double))});
  return [this, addends = std::move(addends), words = as<int64_t>(sum.words)](Stream& stream) {
    parts_.reductions.limbs(addends, words, stream);
  };
}
Executor::Action Executor::bind(const NormOfWords& norm) {
  return [this, words = as<const int64_t>(norm.words), to = as<float>(norm.norm)](Stream& stream) {
    parts_.reductions.norm_of_limbs(words, to, stream);
  };
}
Executor::Action Executor::bind(const ChecksumSpans& checked) {
  std::vector<Reductions::Bytes> spans;
  for (const Span& span : checked.parts) spans.push_back({at(span), static_cast<size_t>(span.bytes)});
  return [this, spans = std::move(spans), sums = as<uint64_t>(checked.sums),
          wanted = as<const int64_t>(checked.wanted)](Stream& stream) {
    parts_.reductions.checksums(spans, sums, wanted, stream);
  };
}
Executor::Action Executor::bind(const ShowOutput& shown, int64_t micro_batch) {
  return [this, micro_batch, output = shown.output, data = at(shown.at)](Stream& stream) {
    stream.synchronize();
    parts_.show(micro_batch, output, data);
  };
}

}  // namespace lockstep::compiler
