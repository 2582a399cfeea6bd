// ReplicaWatch: sends one word per rank and step; only if the words do not cancel does it search for the
// tensors and ranks that differ.
#include "launcher/loop/replica_watch.h"

#include "compiler/runtime/replicas.h"
#include "core/base/error.h"

namespace lockstep::launcher {

using namespace compiler;

void ReplicaWatch::ask(StepInput& input) {
  input.check_replicas = every_ > 0 && input.step % every_ == 0;
  input.replica_word = word_;
}

void ReplicaWatch::hear(int64_t step, const StepResult& result, const Step& made) {
  if (result.replicas_differ) refuse(at_, made, sums_);
  if (!sums_.empty()) alike_ = at_;
  sums_ = result.replica_sums;
  word_ = sums_.empty() ? 0 : replica_word(made.replicas(), sums_);
  at_ = step;
}

bool ReplicaWatch::has_peers(const Step& made) const {
  return !made.replicas().empty() && mesh_.world->size() > 1;
}

void ReplicaWatch::compare_now(int64_t step, Step& made) {
  if (!has_peers(made)) return;
  const std::vector<uint64_t> now = made.checksums_now();
  int64_t word = replica_word(made.replicas(), now);
  all_reduce(*mesh_.world, {&word, &word, 1, DType::i64, ReduceOp::sum}, "replicas");
  if (word) refuse(step, made, now);
}

void ReplicaWatch::compare(int64_t step, Step& made, bool state) {
  if (every_ == 0 || !has_peers(made)) return;
  const std::vector<uint64_t> now = state ? made.checksums_now() : std::vector<uint64_t>();
  int64_t words[2] = {word_, now.empty() ? 0 : replica_word(made.replicas(), now)};
  all_reduce(*mesh_.world, {words, words, 2, DType::i64, ReduceOp::sum}, "replicas");
  if (words[0]) refuse(at_, made, sums_);
  if (words[1]) refuse(step, made, now);
  word_ = 0;
  sums_.clear();
  alike_ = step;
}

void ReplicaWatch::refuse(int64_t step, const Step& made, const std::vector<uint64_t>& sums) {
  const std::string words = replica_difference(made.replicas(), sums, *mesh_.world);
  throw PeerError(str("the replicas of the state differ at step ", step,
                      alike_ ? str(" (they were alike at step ", alike_, ")") : "", ": ",
                      words.empty() ? "in words that do not name a tensor" : words,
                      ". A bit flipped in memory or on its way; nothing was saved of it, and the run can go "
                      "on from its last checkpoint"));
}

}  // namespace lockstep::launcher
