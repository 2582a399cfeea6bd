// Compares ranks with lanes, and describes idle ranks.
#include "launcher/machine/idle_ranks.h"

#include <mutex>

#include "core/base/error.h"
#include "core/base/log.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
// Data ranks that have a micro-batch.
int64_t busy_ranks(const LanePlan& plan) {
  int64_t out = 0;
  for (int rank = 0; rank < plan.ranks; ++rank) out += plan.slots(rank) > 0 && plan.micro_batch(rank, 0) >= 0;
  return out;
}
}  // namespace

std::string idle_ranks(const LanePlan& plan, const Mesh& mesh, bool invariant) {
  const int64_t beside = mesh.size() / mesh.data_size(), busy = busy_ranks(plan) * beside;
  if (busy == mesh.size()) return "";
  const int64_t idle = mesh.size() - busy;
  const bool by_lane = plan.order == LaneOrder::contiguous && plan.lanes < plan.micro_batches;
  const std::string work =
      str(plan.micro_batches, plan.micro_batches == 1 ? " micro-batch" : " micro-batches",
          by_lane ? str(" in ", plan.lanes, plan.lanes == 1 ? " lane" : " lanes") : "");
  const int64_t one_each = by_lane && invariant ? plan.micro_batches * beside : 0;
  return str(idle, " of ", mesh.size(), " ranks ", idle == 1 ? "is" : "are",
             " idle in forward and backward: a step has ", work, ", for ", busy,
             busy == 1 ? " rank" : " ranks", " at most",
             one_each ? str(", or for ", one_each, " with one each") : "", "; start ", busy,
             one_each ? str(" or ", one_each) : "",
             by_lane ? ", or raise batch.lanes (another order of sums)"
                     : ", or make more of them: a smaller batch.micro, or a larger batch.global");
}

void tell_idle_ranks(const std::string& words) {
  static std::mutex mutex;
  static std::string told;
  std::lock_guard lock(mutex);
  if (words.empty() || words == told) return;
  logs::info(told = words);
}

}  // namespace lockstep::launcher
