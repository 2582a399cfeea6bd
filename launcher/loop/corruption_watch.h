// CorruptionWatch: all data ranks compute one micro-batch again, the same one, and compare what comes out. It
// tells a rank that computes wrong, which no comparison of replicas sees: they all receive its gradients.
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
#include "launcher/supervise/contract.h"

namespace lockstep::launcher {

class CorruptionWatch {
 public:
  // `device`: this rank's, as device_place() says it. The references outlive the object.
  CorruptionWatch(const VerifyConfig& config, const LiveMesh& mesh, WorkerPlace at, std::string device);

  // Whether a micro-batch is due behind step i: every verify.recompute_every steps, and, where `save`, before
  // each state that is kept on the disk; once per step, and never on one data rank.
  bool due(int64_t i, bool save) const;
  std::string in_vain() const;  // why none ever is, though the config asks for it; else ""
  struct Finding {
    std::string words;  // "corruption: micro-batch 3 (lane 1) of step 50 ..."
    std::vector<int64_t> ranks;
    bool decided = true;
  };
  // Behind step i, of which `fed` was the input, with the state as it is. Nothing where all ranks say the
  // same. Else it waits for `alike`, which throws where replicas of the state differ, and asks all again.
  // Collective; the finding is the same on all ranks.
  std::optional<Finding> look(int64_t i, compiler::Step& step, const compiler::StepInput& fed,
                              const std::function<void()>& alike);
  // For trainrun.
  WrongRanks wrong_ranks(const Finding& finding, const Device& device) const;
  // What follows a finding, and the way out: the end of its sentence.
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
  int64_t looked_ = 0, alike_ = 0;  // steps: the last one that was looked at, and found alike
};

}  // namespace lockstep::launcher
