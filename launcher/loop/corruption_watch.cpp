// CorruptionWatch: lets all data ranks compute one micro-batch, and reports differing answers.
#include "launcher/loop/corruption_watch.h"

#include <unistd.h>

#include <functional>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "launcher/loop/injected_fault.h"
#include "launcher/machine/run_device.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}
}  // namespace

CorruptionWatch::CorruptionWatch(const VerifyConfig& config, const LiveMesh& mesh, WorkerPlace at,
                                 std::string device)
    : config_(config), mesh_(mesh), at_(std::move(at)), device_(std::move(device)) {}

bool CorruptionWatch::due(int64_t i, bool save) const {
  const int64_t every = config_.recompute_every;
  return every > 0 && (save || i % every == 0) && i != looked_ && mesh_.words.data_size() > 1;
}

std::string CorruptionWatch::in_vain() const {
  if (config_.recompute_every == 0 || mesh_.words.data_size() > 1) return "";
  return "verify.recompute_every compares nothing here: one data rank has no other to compare with";
}

std::vector<uint64_t> CorruptionWatch::ask(Step& step, const StepInput& fed, int64_t micro_batch) {
  const auto sums = step.recompute(fed, micro_batch);
  Group& world = *mesh_.world;
  const uint64_t mine = hash64(sums.data(), sums.size() * sizeof(uint64_t));
  std::vector<uint64_t> all(static_cast<size_t>(world.size()));
  all_gather(world, {&mine, all.data(), std::vector<int64_t>(all.size(), 1), DType::i64}, "answers");
  // Ranks along model dims produce one answer together.
  std::vector<uint64_t> out(static_cast<size_t>(mesh_.words.data_size()));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    uint64_t& answer = out[static_cast<size_t>(mesh_.words.data_rank(static_cast<int64_t>(rank)))];
    answer = answer == 0 ? all[rank] : hash64(&all[rank], sizeof all[rank], answer);
  }
  return out;
}

std::vector<int64_t> CorruptionWatch::ranks_of(int data_rank) const {
  std::vector<int64_t> out;
  for (int64_t rank = 0; rank < mesh_.world->size(); ++rank)
    if (mesh_.words.data_rank(rank) == data_rank) out.push_back(rank);
  return out;
}

// Per rank, "on host-7, GPU 1 (NVIDIA H200, PCI 0000:17:00.0)".
std::vector<std::string> CorruptionWatch::places() {
  return all_gather_text(*mesh_.world, str("on ", host_name(), device_.empty() ? "" : ", ", device_));
}

std::string CorruptionWatch::who(const std::vector<int64_t>& ranks,
                                 const std::vector<std::string>& places) const {
  std::string out;
  for (size_t i = 0; i < ranks.size(); ++i)
    out += str(i == 0                  ? ""
               : i + 1 == ranks.size() ? " and "
                                       : ", ",
               "rank ", ranks[i], " (", places[static_cast<size_t>(ranks[i])], ")");
  return out;
}

std::optional<CorruptionWatch::Finding> CorruptionWatch::look(int64_t i, Step& step, const StepInput& fed,
                                                              const std::function<void()>& alike) {
  looked_ = i;
  const LanePlan& lanes = step.lane_plan();
  const int64_t micro_batch = i / config_.recompute_every % lanes.micro_batches;
  StepInput once = fed;
  if (fault_due(at_, "glitch", i)) flip_batch(once);
  const auto first = ask(step, once, micro_batch);
  if (all_equal(first)) {
    alike_ = i;
    return {};
  }
  alike();
  const auto again = ask(step, fed, micro_batch);
  const Judgement found = judge(first, again);
  const auto where = places();
  // In a mesh with model dims, several ranks give one answer together.
  const char* unit = mesh_.words.data_size() < mesh_.world->size() ? " (data ranks)" : "";
  Finding out;
  out.decided = found.decided;
  std::string verdict;
  std::vector<int64_t> suspects;
  for (const auto& [data_rank, lasting] : found.wrong) {
    const auto ranks = ranks_of(data_rank);
    suspects.insert(suspects.end(), ranks.begin(), ranks.end());
    if (found.decided)
      verdict += str("; ", who(ranks, where),
                     lasting ? " computed wrong both times: persistent corruption"
                             : " computed wrong once, and right when asked again: transient corruption");
  }
  if (!found.decided)
    verdict = str("; ", who(suspects, where), " stay with what they say, and ",
                  mesh_.words.data_size() == 2
                      ? "two data ranks cannot tell which of them computes wrong; three can"
                      : "no answer has more of them than the others",
                  ": persistent corruption on one of them");
  out.ranks = suspects;
  out.words = str("corruption: micro-batch ", micro_batch, " (lane ", micro_batch / lanes.per_lane(),
                  ") of step ", i, " does not come out alike where all ranks compute it", unit, ": ",
                  answers_text(first), "; asked again: ", answers_text(again), verdict,
                  alike_ ? str("; all were alike at step ", alike_)
                         : std::string("; nothing was compared before it since the start"));
  return out;
}

// Why no rank is left out although the config asks for it; "" if one is.
std::string CorruptionWatch::why_not(const Finding& finding, const Device& device) const {
  if (!finding.decided) return "whom is not known";
  if (!at_.supervised()) return "it is trainrun that does so, and it did not start these ranks";
  const bool one_host = at_.local_world_size == at_.world_size;
  if (one_host && device.kind() != "cpu" && device.kind() != "cuda")
    return str("rank i takes device i of ", device.kind(), ", and one rank less would leave out the last");
  return "";
}

WrongRanks CorruptionWatch::wrong_ranks(const Finding& finding, const Device& device) const {
  WrongRanks out;
  out.ranks = finding.ranks;
  out.leave_out = config_.on_corruption == "leave_out" && why_not(finding, device).empty();
  if (at_.local_world_size == at_.world_size && device.kind() == "cuda")
    out.devices = visible_without(finding.ranks);
  return out;
}

std::string CorruptionWatch::consequence(const Finding& finding, const Device& device) const {
  const std::string& policy = config_.on_corruption;
  if (policy == "warn") return "; the run goes on (verify.on_corruption is warn)";
  const std::string saved =
      ". No checkpoint holds what was computed since then: ranks are compared before each save";
  if (policy == "stop")
    return str(saved,
               ". Take the host or the device out (trainrun doctor looks at it), and the same command "
               "goes on from the last one; verify.on_corruption=leave_out does so by itself");
  if (const std::string why = why_not(finding, device); !why.empty())
    return str(saved, ". verify.on_corruption leaves nobody out: ", why,
               ". Take the host or the device out, and give the same command");
  return str(saved, ". The run goes on from the last one, without ",
             finding.ranks.size() == 1 ? "this rank" : "these ranks", " (verify.on_corruption)");
}

}  // namespace lockstep::launcher
