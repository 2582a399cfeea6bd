// CorruptionWatch: all data ranks recompute the same micro-batch and compare the results. This finds a rank
// that computes wrong. A comparison of replicas cannot, because all replicas receive its gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/runtime/step.h"
#include "core/mesh/array.h"
#include "launcher/config/run_config.h"
#include "launcher/loop/answers.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

class CorruptionWatch {
 public:
  // `device`: this rank's, as device_place() says it. The references outlive the object.
  CorruptionWatch(const VerifyConfig& config, const LiveMesh& mesh, WorkerPlace at, std::string device);

  // Whether a check is due after step i: every verify.recompute_every steps and, with `save`, before each
  // save to the disk; at most once per step, and never on a single data rank.
  bool due(int64_t i, bool save) const;
  std::string in_vain() const;  // why no check ever runs although the config asks for it; else ""
  struct Finding {
    std::string words;  // "corruption: micro-batch 3 (lane 1) of step 50 ..."
    std::vector<int64_t> ranks;
    bool decided = true;
  };
  // Checks after step i with input `fed` and the current state. nullopt if all ranks agree. Else it calls
  // `alike`, which throws if replicas of the state differ, and lets all ranks compute a second time.
  // Collective; the finding is the same on all ranks.
  std::optional<Finding> look(int64_t i, compiler::Step& step, const compiler::StepInput& fed,
                              const std::function<void()>& alike);
  // For trainrun.
  WrongRanks wrong_ranks(const Finding& finding, const Device& device) const;
  // The consequence of a finding and the way out: the end of its message.
  std::string consequence(const Finding& finding, const Device& device) const;

 private:
  std::vector<uint64_t> ask(compiler::Step& step, const compiler::StepInput& fed, int64_t micro_batch);
  std::string why_not(const Finding& finding, const Device& device) const;
  std::vector<std::string> places();
  std::string who(const std::vector<int64_t>& ranks, const std::vector<std::string>& places) const;
  std::vector<int64_t> ranks_of(int data_rank) const;

  const VerifyConfig& config_;
  const LiveMesh& mesh_;
  const WorkerPlace at_;
  const std::string device_;
  int64_t looked_ = 0, alike_ = 0;  // the last step that was checked, and the last one found equal
};

}  // namespace lockstep::launcher
