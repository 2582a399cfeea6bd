// Compares each run of a block with the one before it.
#include "compiler/program/check/block_turns.h"

#include <algorithm>

#include "core/base/text.h"

namespace lockstep::compiler {

std::string BlockTurns::run(const RunBlock& run, const Instr& instr) {
  Turn& turn = turns_[{run.block, run.own.region}];
  if (run.first == 0) {
    if (turn.newest && turn.reached < calls_of(run.block))
      return str("begins anew where calls from ", turn.reached, " on are due");
    if (!done_.insert({run.block, instr.micro_batch}).second) return "runs a second time";
  } else if (turn.reached != run.first || turn.micro_batch != instr.micro_batch) {
    return str("calls from ", turn.reached, turn.newest ? str(" on of micro-batch ", turn.micro_batch) : "",
               " are due");
  }
  turn = {run.last, instr.micro_batch, &instr, run};
  return gathered(run);
}

std::string BlockTurns::read(const Span& span) const {
  const auto found = turns_.find({kSeedBlock, span.region});
  if (found == turns_.end()) return "";
  const ProgramBlock& seed = program_.blocks[kSeedBlock];
  const Turn& turn = found->second;
  for (int c = turn.reached; c < calls_of(kSeedBlock); ++c) {
    const BlockCall& call = seed.calls[c];
    if (call.kind == BlockCall::Kind::start || call.kind == BlockCall::Kind::wait) continue;
    for (size_t i = call.inputs; i < call.args.size(); ++i) {
      const Value& value = seed.graph[seed.graph.node(call.node).outputs[i - call.inputs]];
      const Span made = span_of(turn.run, call.args[i], bytes_of(value));
      if (made.region == span.region && made.offset < span.offset + span.bytes &&
          span.offset < made.offset + made.bytes)
        return str("reads what call ", c, " of the seed is yet to make");
    }
  }
  return "";
}

std::string BlockTurns::gathered(const RunBlock& run) {
  const auto& buckets = program_.blocks[run.block].gathers.buckets;
  if (buckets.empty()) return "";
  size_t due = 0, all = 0;
  for (const auto& bucket : buckets) {
    if (bucket.wait <= run.first) due += bucket.segments.size();
    all += bucket.segments.size();
  }
  const bool own = program_.blocks[run.block].segment_at[0].base == BlockPlace::own_arena;
  size_t& arrived = arrived_[own ? run.own.region : run.shared.region];
  // A new pass over the block.
  if (arrived > all || (arrived == all && due == 0)) arrived -= all;
  return arrived == due ? "" : str("runs with ", arrived, " of ", due, " weights gathered");
}

bool BlockTurns::has_micro_batches() const {
  return std::any_of(done_.begin(), done_.end(), [](const auto& block) { return block.second >= 0; });
}

int BlockTurns::reached(int arena) const {
  const auto found = turns_.find({kBodyBlock, arena});
  return found == turns_.end() ? 0 : found->second.reached;
}

const Instr* BlockTurns::unfinished(int& from) const {
  for (const auto& [key, turn] : turns_)
    if (turn.reached < calls_of(key.first)) {
      from = turn.reached;
      return turn.newest;
    }
  return nullptr;
}

std::vector<int> BlockTurns::arenas_of(int block) const {
  std::vector<int> out;
  for (const auto& [key, turn] : turns_)
    if (key.first == block) out.push_back(key.second);
  return out;
}

}  // namespace lockstep::compiler
