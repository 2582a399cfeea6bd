// The order in which micro-batches run: one after another, or layer by layer.
#include <algorithm>
#include <utility>

#include "compiler/program/build/builder.h"
#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

// Runs calls up to `end`; adds each bucket's gradients when they are ready.
void StepBuilder::advance(Turn& turn, int end) {
  writer_.set_micro_batch(micro_batch(turn.slot));
  const auto& ready = block(kBodyBlock).ready;
  while (turn.reached <= end) {
    const int stop = turn.group < ready.size() ? std::min(ready[turn.group] + 1, end) : end;
    if (!turn.idle) run_body(turn, turn.reached, stop);
    turn.reached = stop;
    for (; turn.group < ready.size() && ready[turn.group] < turn.reached; ++turn.group) add(turn, turn.group);
    if (stop == end) break;
  }
  writer_.set_micro_batch(-1);
}

void StepBuilder::add(const Turn& turn, size_t g) {
  if (inspects_) {
    if (micro_batch(turn.slot) < 0) return;
    if (answers_.there()) return answer(turn, g);
    for (int output : block(kBodyBlock).groups[g])
      writer_.put(ShowOutput{output, output_of(kBodyBlock, output, turn.inputs, turn.arena)});
    return;
  }
  if (g >= buckets_.size()) return add_rows(turn, g - buckets_.size());
  std::vector<std::vector<Span>> gradients(static_cast<size_t>(together_));
  const RunBlock run = run_of(kBodyBlock, turn.inputs, 0, 0, turn.arena);
  for (int64_t j = 0; j < together_ && !turn.idle; ++j)
    for (int output : plan_.phases.buckets[g])
      gradients[j].push_back(
          lockstep::compiler::output_of(block(kBodyBlock), of_micro_batch(run, j), output));
  buckets_[g]->add_all(turn.slot, gradients);
  // The last micro-batch's gradients travel while the rest of its backward runs.
  if (turn.slot + together_ == slots_) buckets_[g]->end();
}

void StepBuilder::answer(const Turn& turn, size_t g) {
  constexpr int64_t kSumBytes = sizeof(uint64_t);
  ChecksumSpans checked{.parts = {}, .sums = {}, .wanted = wanted_};
  for (int output : block(kBodyBlock).groups[g])
    checked.parts.push_back(output_of(kBodyBlock, output, turn.inputs, turn.arena));
  const auto count = static_cast<int64_t>(checked.parts.size());
  checked.sums = answers_.part(answered_ * kSumBytes, count * kSumBytes);
  answered_ += count;
  if (count) writer_.put(std::move(checked));
}

void StepBuilder::bodies() {
  if (plan_.phases.streamed.empty())
    accumulate();
  else if (by_layer())
    by_layers();
  else
    for (int64_t j = 0; j < slots_; j += together_) by_weights({turn_of(j)});
  if (slots_ == 0)
    for (auto& bucket : buckets_) bucket->end();
  seed_to(static_cast<int>(block(kSeedBlock).calls.size()));
}

StepBuilder::Turn StepBuilder::turn_of(int64_t slot, int64_t arena) {
  bring_rows(slot, arena, micro_batch(slot) < 0);
  return {slot, arena, micro_batch(slot) < 0, inputs_of(plan_.phases.body, slot), 0, 0};
}

// Policy: one micro-batch after another, or as many as run together; gradients are added when they are ready.
void StepBuilder::accumulate() {
  for (int64_t j = 0; j < slots_; j += together_) {
    Turn turn = turn_of(j);
    advance(turn, static_cast<int>(block(kBodyBlock).calls.size()));
  }
}

// Policy: the weights of a bucket are gathered once, and the calls up to the next bucket run for one
// micro-batch after another.
void StepBuilder::by_layers() {
  std::vector<Turn> turns;
  for (int64_t j = 0; j < slots_; ++j) turns.push_back(turn_of(j, j));
  by_weights(std::move(turns));
}

// Policy: weights arrive bucket by bucket, one bucket ahead of the calls that read them. An idle slot runs
// like the others, because all ranks take part in its gathers.
void StepBuilder::by_weights(std::vector<Turn> turns) {
  if (!by_layer()) turns[0].idle = false;
  const int64_t micro = turns.size() == 1 ? std::max<int64_t>(0, micro_batch(turns[0].slot)) : -1;
  behind_weights(kBodyBlock, micro, [&](int, int to) {
    for (Turn& turn : turns) advance(turn, to);
  });
}

}  // namespace lockstep::compiler
