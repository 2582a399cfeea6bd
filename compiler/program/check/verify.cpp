// One walk in order, which tracks operations in flight, the content of memory, and the progress of blocks.
#include "compiler/program/check/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/program/check/block_turns.h"
#include "compiler/program/check/byte_states.h"
#include "compiler/program/check/flights.h"
#include "compiler/program/check/refusals.h"
#include "compiler/program/check/tallies.h"
#include "compiler/program/check/values_away.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
using Verb = StartCollective::Verb;

class Walk : private Refusals {
 public:
  explicit Walk(const StepProgram& program)
      : Refusals(program), flights_(program), away_(program), turns_(program) {
    for (size_t r = 0; r < program.regions.size(); ++r)
      if (const auto kind = program.regions[r].kind;
          kind == Region::Kind::state || kind == Region::Kind::input)
        bytes_.set(program.whole(static_cast<int>(r)), ByteState::plain);
  }

  void run(const std::vector<Instr>& instrs) {
    for (size_t i = 0; i < instrs.size(); ++i) {
      const Instr& instr = instrs[i];
      now_ = &instr;
      if (const auto* start = std::get_if<StartCollective>(&instr.what); start && start->more) {
        const auto* next =
            i + 1 < instrs.size() ? std::get_if<StartCollective>(&instrs[i + 1].what) : nullptr;
        if (start->verb != Verb::all_gather || !next || next->verb != start->verb ||
            next->along != start->along)
          fail(str("is launched with a gather along ", start->along, ", which does not follow"));
      }
      const Access access = access_of(program_, instr);
      for (const Span& span : access.reads) check_access(span, false);
      for (const Span& span : access.writes) check_access(span, true);
      std::visit(*this, instr.what);
    }
  }
  // Blocks that the refresh has run may run again in the step, with the step's own scales.
  void begin_step() {
    turns_.begin_anew();
    for (int arena : turns_.arenas_of(kScalesBlock)) bytes_.set(program_.whole(arena), ByteState::none);
  }
  void end() {
    if (const auto [flight, start] = flights_.open(); start)
      fail(*start, str("nothing waits for flight ", flight));
    int from = 0;
    if (const Instr* run = turns_.unfinished(from)) fail(*run, str("calls from ", from, " on are never run"));
    if (program_.votes.there()) counted_.insert(program_.votes.region);
    for (int region : counted_)
      refuse_none(added_, works() ? program_.whole(region) : program_.votes, "adds to a part of ");
    for (size_t r = 0; r < program_.regions.size(); ++r)
      if (program_.regions[r].kind == Region::Kind::result)
        refuse_none(bytes_, program_.whole(static_cast<int>(r)), "writes a part of ");
    for (const Span& rows : program_.updated)
      if (!updated_.is_plain(rows)) lacks("updates ", rows.region);
    for (const Span& table : program_.put)
      if (!updated_.is_plain(table)) lacks("replaces rows of ", table.region);
    // Values that the caller of the step reads.
    for (const auto& metric : program_.metrics)
      refuse_none(bytes_, metric.at, "writes a part of "), touch(metric.at);
    bytes_.all([&](int region, ByteState state) {
      if (is_unread(state) && program_.regions[region].kind != Region::Kind::result)
        throw InternalError(str("step program of rank ", program_.rank, ": nothing reads what ",
                                program_.regions[region].name, " holds in the end"));
    });
  }
  void operator()(const RunBlock& run) {
    if (run.micro_batches > 1 && run.own_stride() < program_.blocks[run.block].own_bytes)
      fail(str("gives each of ", run.micro_batches, " micro-batches ", run.own_stride(), " of ",
               program_.blocks[run.block].own_bytes, " bytes"));
    refuse(turns_.run(run, *now_));
    refuse(away_.run(run));
    std::vector<RunBlock> each;
    for (int64_t j = 0; j < run.micro_batches; ++j) each.push_back(of_micro_batch(run, j));
    for (int c = run.first; c < run.last; ++c)
      for (const RunBlock& one : each) call(one, program_.blocks[run.block].calls[c]);
    for (const RunBlock& one : each) hand_over(one);
  }
  void operator()(const StartCollective& start) {
    if (!flights_.begin(start.flight, {now_, start.label, {start.from}, {start.to}}))
      fail(str("flight ", start.flight, " starts twice"));
    if (start.verb == Verb::all_reduce)
      take(start.from, true);
    else
      start.verb == Verb::all_to_all || start.verb == Verb::reduce_scatter ? take(start.from)
                                                                           : look(start.from);
    // A rank without micro-batches takes part in gathers of weights for the bodies of others.
    const bool for_others = start.verb == Verb::all_gather && in_arena(start.to) && !works();
    write(start.to, start.verb == Verb::all_reduce ? ByteState::summed
                    : for_others                   ? ByteState::plain
                                                   : ByteState::once);
    if (start.verb == Verb::all_gather && start.to.there())
      stale_[start.to.region] = stale_.count(start.from.region) && stale_[start.from.region];
  }
  void operator()(const Wait& wait) {
    const Flights::Flight ended = flights_.end(wait.flight);
    if (!ended.start) fail(str("flight ", wait.flight, " is not in progress"));
    away_.end(wait.flight);
    const Span& to = ended.to.at(0);
    if (std::holds_alternative<StartCollective>(ended.start->what) && in_arena(to))
      turns_.weights_arrive(to.region);
  }
  // Each moment in host memory comes to the device, is updated there, and goes back.
  void operator()(const StartCopies& start) {
    Flights::Flight flight{now_, start.label, {}, {}};
    const int arena = away_.arena_of(start);
    if (arena >= 0) refuse(away_.start(start, turns_.reached(arena)));
    for (const auto& [to, from] : start.copies) {
      flight.from.push_back(from), flight.to.push_back(to);
      const Span& there = start.to_host ? to : from;
      if (!program_.regions[there.region].on_host)
        fail(str("takes ", program_.regions[there.region].name, " for memory of the host"));
      arena >= 0 && start.to_host ? touch(from) : look(from);
      write(to, ByteState::plain);
      if (arena >= 0) continue;
      if (!start.to_host) {
        to_update_.set(to, ByteState::plain);
        staged_.insert(to.region);
        continue;
      }
      to_update_.each(from, [&](ByteState state) {
        if (state == ByteState::plain)
          fail(str("brings ", program_.regions[to.region].name, " from before its update"));
        return state;
      });
      update_once(to);
    }
    if (!flights_.begin(start.flight, std::move(flight))) fail(str("flight ", start.flight, " starts twice"));
  }
  void operator()(const Accumulate& add) {
    for (const auto& piece : add.pieces) take(piece.from);
    for (const Span& span : add.lefts) take(span);
    write(add.to, ByteState::once);
  }
  void operator()(const SumTrees& sums) {
    for (const auto& tree : sums.trees) {
      const Span out = tree.sum();
      // Two tensors may share one gradient if it is already the sum of both.
      const bool summed = tree.stays() && out.bytes > 0 && sums_.is_plain(out);
      for (const auto& source : tree.sources)
        if (!summed) take(source.at);
      if (!summed) write(out, tree.row_squares.there() ? ByteState::total : ByteState::once);
      if (tree.row_squares.there())
        sums_.set(out, ByteState::plain), squared_.emplace_back(tree.row_squares, out);
      write(tree.row_squares, ByteState::plain);
    }
  }
  void operator()(const CopySpans& all) {
    for (const auto& copy : all.copies) stale_.erase(copy.to.region);
    for (const auto& [to, from] : all.copies) {
      if (!from.there() || !to.there() || from.bytes == 0) continue;
      const auto kind = program_.regions[from.region].kind;
      // A gradient is packed for sending; the sum of an only micro-batch is in its arena, too.
      kind == Region::Kind::arena && !sums_.is_plain(from) ? take(from) : look(from);
      const bool stale = kind == Region::Kind::state ? !updated_.is_plain(from) : stale_[from.region];
      if (stale && program_.regions[to.region].kind == Region::Kind::state)
        fail(str("brings ", program_.regions[to.region].name, " from before its update"));
      if (stale) stale_[to.region] = true;
      write_copy(to);
    }
  }
  void operator()(const ZeroSpan& zero) {
    write(zero.at, ByteState::once);
    added_.set(zero.at, ByteState::none);
    raised_.set(zero.at, ByteState::plain);
  }
  void operator()(const AddCounts& add) {
    take(add.totals);
    if (tallies_.takes(add.addend, add.totals)) take(add.addend);
    write(add.totals, ByteState::once);
    added_.set(add.totals, ByteState::plain);
    counted_.insert(add.totals.region);
  }
  void operator()(const UpdateTensors& update) {
    for (const auto& tensor : update.tensors) {
      if (tensor.count == 0) continue;  // a rank without rows of it
      for (const Span& span : tensor.inputs) {
        look(span);
        if (staged_.count(span.region) && !to_update_.is_plain(span))
          fail(str("updates what ", stretch(span), " holds twice"));
      }
      look(tensor.ids), look(tensor.rows), look(tensor.scale), look(tensor.scale_before);
      for (const Span& span : tensor.outputs) {
        if (!span.there() || span.bytes == 0) continue;
        write(span, ByteState::plain);
        to_update_.set(span, ByteState::none);
        if (program_.regions[span.region].kind != Region::Kind::state) continue;
        update_once(span);
      }
      write(tensor.copy, ByteState::plain);
      raise(tensor.largest);
    }
    for (const Span& span : update.gates) look(span);
  }
  void operator()(const SumRows& sum) {
    look(sum.ids), look(sum.rows);
    for (const Span& span : {sum.out_ids, sum.out_rows, sum.squares}) write(span, ByteState::plain);
  }
  void operator()(const TakeRows& take) {
    look(take.table);
    for (const auto& piece : take.pieces) {
      look(piece.ids);
      write_copy(piece.to);
    }
  }
  void operator()(const PutRows& put) {
    for (const Span& span : {put.ids, put.rows, put.table}) look(span);
    for (const Span& span : put.gates) look(span);
    write(put.table, ByteState::plain);
    update_once(put.table);
  }
  void operator()(const SumSquares& sum) {
    for (const Span& span : sum.addends) {
      look(span);
      // The tensor behind the squares counts as read, but not as updated.
      for (const auto& [squares, of] : squared_)
        if (squares.region == span.region && squares.offset >= span.offset &&
            squares.offset < span.offset + span.bytes)
          touch(of);
    }
    write(sum.words, ByteState::once);
  }
  void operator()(const NormOfWords& norm) {
    look(norm.words);
    write(norm.norm, ByteState::plain);
  }
  void operator()(const ChecksumSpans& checked) {
    for (const Span& span : checked.parts) {
      look(span);
      updated_.each(span, [&](ByteState state) {
        if (state == ByteState::plain)
          fail(str("compares ", program_.regions[span.region].name, " after its update"));
        return state;
      });
    }
    look(checked.wanted);
    write(checked.sums, ByteState::plain);
  }
  template <class Other>
  void operator()(const Other&) {
    const Access access = access_of(program_, *now_);
    for (const Span& span : access.reads) look(span);
    for (const Span& span : access.writes) write(span, ByteState::plain);
  }

 private:
  // Whether the rank has micro-batches; they are counted before weights are gathered.
  bool works() const { return turns_.has_micro_batches(); }
  bool in_arena(const Span& span) const {
    return span.there() && program_.regions[span.region].kind == Region::Kind::arena;
  }
  void refuse_none(ByteStates& bytes, const Span& span, const char* what) {
    if (!span.there()) return;
    bytes.each(span, [&](ByteState state) {
      if (state == ByteState::none) lacks(what, span.region);
      return state;
    });
  }
  int calls_of(int block) const { return static_cast<int>(program_.blocks[block].calls.size()); }
  // A call of a block, for one micro-batch.
  void call(const RunBlock& run, const BlockCall& call) {
    const ProgramBlock& block = program_.blocks[run.block];
    const Node& node = block.graph.node(call.node);
    if (call.kind == BlockCall::Kind::wait)
      return write(argument(run, block.start_of(call.flight), 1, block.graph[node.outputs[0]]),
                   ByteState::plain);
    for (size_t i = 0; i < call.inputs; ++i) {
      const Span span = argument(run, call, i, block.graph[node.inputs[i]]);
      // Inside its arena, the block's own plan ensures that reads follow writes. A gradient that was already
      // handed over may be the input of another one.
      if (call.args[i].base >= 0)
        refuse(turns_.read(span)), look(span);
      else if (!given_.is_plain(span))
        touch(span);
    }
    if (call.kind == BlockCall::Kind::start) return;  // its result belongs to the block until the wait
    for (size_t i = call.inputs; i < call.args.size(); ++i)
      write(argument(run, call, i, block.graph[node.outputs[i - call.inputs]]), ByteState::plain);
  }
  Span argument(const RunBlock& run, const BlockCall& call, size_t i, const Value& value) const {
    return span_of(run, call.args[i], bytes_of(value));
  }
  void check_access(const Span& span, bool written) const {
    inside(span);
    refuse(flights_.refused(span, written));
    if (program_.regions[span.region].on_host && !std::holds_alternative<StartCopies>(now_->what))
      fail(str("reaches ", program_.regions[span.region].name, ", which is in host memory"));
  }
  // Reads a result.
  void look(const Span& span) {
    if (!span.there()) return;
    bytes_.each(span, [&](ByteState state) {
      if (state == ByteState::none) fail(str("reads ", stretch(span), " which nothing wrote"));
      if (state == ByteState::spent) fail(str("reads ", stretch(span), " which was taken already"));
      return state == ByteState::plain ? state : ByteState::settled;
    });
    raised_.set(span, ByteState::none);
  }
  // Keeps the larger of the stored maximum and the new value. Allowed from zero on, until it is read.
  void raise(const Span& most) {
    if (!most.there()) return;
    raised_.each(most, [&](ByteState state) {
      if (state != ByteState::plain) fail(str("finds the largest of ", stretch(most), ", which is not zero"));
      return state;
    });
    bytes_.set(most, ByteState::plain);
  }
  // Takes an addend; `over_ranks`: to sum it over ranks.
  void take(const Span& span, bool over_ranks = false) {
    if (!span.there()) return;
    const bool given = program_.regions[span.region].kind == Region::Kind::input;
    bytes_.each(span, [&](ByteState state) {
      if (state == ByteState::none) fail(str("reads ", stretch(span), " which nothing wrote"));
      if (state != ByteState::once && !(given && state == ByteState::plain) &&
          !(over_ranks && state == ByteState::summed))
        fail(str("adds ", stretch(span), why_no_addend(state)));
      return ByteState::spent;
    });
  }
  void touch(const Span& span) {
    bytes_.each(span, [](ByteState state) { return is_unread(state) ? ByteState::settled : state; });
  }
  void write(const Span& span, ByteState as) {
    if (!span.there()) return;
    bytes_.each(span, [&](ByteState state) {
      if (is_unread(state)) fail(str("writes ", stretch(span), " of which nothing read what it held"));
      return as;
    });
    given_.set(span, ByteState::none);
  }
  // Content packed for sending must be sent.
  void write_copy(const Span& to) {
    if (!to.there()) return;
    const bool staged = program_.regions[to.region].kind == Region::Kind::staging;
    write(to, staged ? ByteState::once : ByteState::plain);
  }
  void update_once(const Span& state) {
    updated_.each(state, [&](ByteState before) {
      if (before == ByteState::plain) fail(str("updates ", program_.regions[state.region].name, " twice"));
      return ByteState::plain;
    });
  }
  // The outputs that a run hands over to sums: each group when it is ready; for a block without groups, all
  // outputs. A slot without a micro-batch hands over nothing.
  void hand_over(const RunBlock& run) {
    const ProgramBlock& block = program_.blocks[run.block];
    const ByteState as = now_->micro_batch >= 0 ? ByteState::once : ByteState::spent;
    auto give = [&](int output) {
      if (const Span span = output_of(block, run, output); span.there())
        bytes_.set(span, as), sums_.set(span, ByteState::none), given_.set(span, ByteState::plain);
    };
    if (run.block == kCountBlock) tallies_.clear();
    // Results on a rank's own rows are not addends, but results to be sent.
    if (run.block == kMaximaBlock || run.block == kCastBlock)
      for (size_t o = 0; o < block.outputs.size(); ++o) sums_.set(output_of(block, run, o), ByteState::plain);
    for (size_t g = 0; g < block.groups.size(); ++g)
      if (const int at = std::max(block.ready[g], 0); at >= run.first && at < run.last)
        for (int output : block.groups[g]) give(output);
    if (!block.groups.empty() || now_->micro_batch < 0 || run.last < calls_of(run.block)) return;
    for (size_t o = 0; o < block.outputs.size(); ++o) give(static_cast<int>(o));
  }

  ByteStates bytes_;
  ByteStates added_;       // plain: counts that received an addition since they were zeroed
  ByteStates raised_;      // plain: zeroed, and not read since
  std::set<int> counted_;  // regions of counts
  Tallies tallies_;
  std::vector<std::pair<Span, Span>> squared_;  // squares of rows, and their tensor
  ByteStates updated_;                          // plain: in this step
  ByteStates sums_;                             // plain: finished
  ByteStates given_;                            // plain: handed over by a block since it was written
  std::map<int, bool> stale_;  // per region: whether it has copies of state from before its update
  Flights flights_;
  ValuesAway away_;
  ByteStates to_update_;  // plain: moments that were brought and are not updated yet
  std::set<int> staged_;  // regions to which moments are brought
  BlockTurns turns_;
};
}  // namespace

void verify(const StepProgram& program) {
  Walk walk(program);
  walk.run(program.refresh);
  walk.begin_step();
  walk.run(program.instrs);
  walk.end();
}

}  // namespace lockstep::compiler
