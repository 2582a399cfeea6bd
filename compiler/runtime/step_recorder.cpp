// Records marks, and resolves them to spans.
#include "compiler/runtime/step_recorder.h"

#include <chrono>

#include "compiler/program/show/print.h"
#include "core/base/error.h"
#include "core/mesh/timed_work.h"

namespace lockstep::compiler {

StepRecorder::StepRecorder(Stream& stream) : at_(steady_seconds()), begin_(stream.mark()) {}

void StepRecorder::enter(int instr, Stream& stream) {
  open_.push_back(entries_.size());
  entries_.push_back({instr, -1, stream.mark(), nullptr});
}
void StepRecorder::enter_call(int call, Stream& stream) {
  LS_CHECK(!open_.empty(), "a call outside of an instruction");
  const int instr = entries_[open_.back()].instr;
  open_.push_back(entries_.size());
  entries_.push_back({instr, call, stream.mark(), nullptr});
}
void StepRecorder::leave(Stream& stream) {
  end_ = entries_[open_.back()].end = stream.mark();
  open_.pop_back();
}

void StepRecorder::started(const BoundCollective& what, std::shared_ptr<Work> work, Stream& stream) {
  Flight& flight = flights_.emplace_back();
  flight.said.along = what.along, flight.said.label = what.label, flight.said.bytes = what.bytes;
  flight.said.verb = name(what.what);
  flight.instr = open_.empty() ? -1 : entries_[open_.back()].instr;
  flight.begin = stream.mark();
  joined_.emplace_back(flights_.size() - 1, std::move(work));
  if (const auto* gather = std::get_if<AllGather>(&what.what); gather && gather->more) return;
  for (const auto& [at, one] : joined_)
    if (auto* timed = dynamic_cast<TimedWork*>(one.get())) flights_[at].end = timed->mark_end();
  joined_.clear();
}

TracedStep StepRecorder::resolve(const StepProgram& program, int64_t step) const {
  LS_CHECK(open_.empty() && end_, "a step that has not run whole");
  TracedStep out;
  out.step = step, out.at = at_, out.host = host_;
  out.seconds = end_->seconds_after(*begin_);
  const std::vector<std::string> labels = flight_labels(program);
  for (const Entry& entry : entries_) {
    const Instr& instr = program.instrs[entry.instr];
    const auto* run = std::get_if<RunBlock>(&instr.what);
    TracedStep::Span& span = out.spans.emplace_back();
    span.begin = entry.begin->seconds_after(*begin_), span.end = entry.end->seconds_after(*begin_);
    span.instr = entry.instr, span.call = entry.call, span.micro_batch = instr.micro_batch;
    if (entry.call < 0) {
      span.kind = span.name = kind_of(instr);
      span.at = instr.at;
      if (run) span.name = program.block_names[run->block];
      if (const auto* start = std::get_if<StartCollective>(&instr.what)) span.name = "start " + start->label;
      if (const auto* start = std::get_if<StartCopies>(&instr.what)) span.name = "start " + start->label;
      if (const auto* wait = std::get_if<Wait>(&instr.what))
        span.name = "wait for " + labels.at(wait->flight);
      continue;
    }
    const ProgramBlock& block = program.blocks[run->block];
    const BlockCall& call = block.calls[entry.call];
    const Node& node = block.graph.node(call.node);
    span.name = call.what, span.at = node.at, span.op = std::string(node.op.name());
    span.kind = call.kind == BlockCall::Kind::start  ? "start"
                : call.kind == BlockCall::Kind::wait ? "wait"
                                                     : call.family;
    span.flops = call.flops * static_cast<double>(run->micro_batches);
    span.bytes = call.bytes * run->micro_batches;
  }
  for (const Flight& flight : flights_) {
    out.flights.push_back(flight.said);
    out.flights.back().begin = flight.begin->seconds_after(*begin_);
    if (flight.end) out.flights.back().end = flight.end->seconds_after(*begin_);
    if (flight.instr >= 0) out.flights.back().micro_batch = program.instrs[flight.instr].micro_batch;
  }
  return out;
}

}  // namespace lockstep::compiler
