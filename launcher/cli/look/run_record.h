// The records of a run folder: the lines of metrics.jsonl, the checkpoints, and the config of a step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "launcher/config/config.h"

namespace lockstep::launcher::cli {

class RunRecord {
 public:
  // Reads the folder that `word` names: runs/WORD, or a path. UserError when there is none, naming the
  // nearest run, when it holds no run, and when its rows cannot be read. Warns of damaged rows.
  explicit RunRecord(const std::string& word);

  const std::string& folder() const { return folder_; }
  const std::map<int64_t, Json>& lines() const { return lines_; }  // of metrics.jsonl, by step
  int64_t last_step() const;                                       // the newest recorded step; 0: none
  std::vector<std::string> checkpoints_before(
      int64_t step) const;  // step folders of sound structure, newest first
  const checkpoint::CheckpointSummary* checkpoint(int64_t step) const;  // with a sound structure; null: none
  std::vector<int64_t> checkpoint_steps() const;                        // ascending, of sound structure
  std::vector<int64_t> steps_with(
      const std::string& quantity = "") const;  // steps whose line in metrics.jsonl has it, ascending

  // All recorded values of a step as text, with numbers as in metrics.jsonl. The step's last line counts.
  // State hash and certificate come from the step's checkpoint if the line has none.
  std::map<std::string, std::string> values(int64_t step) const;

  // The run's config at `step`: from the first checkpoint at or after it, else from the folder's config.json;
  // for a user program, which has none, from its newest checkpoint.
  struct Then {
    RunConfig config;
    bool program = false;             // of a user program
    std::string where;                // the file; "" for a program without a checkpoint
    std::string library, data, mesh;  // "" if not recorded
  };
  Then then(int64_t step) const;
  // The shell command that started a program's run, "./program ARGS", and its directory; "" if not recorded.
  struct Command {
    std::string words, folder;
  };
  Command command() const;

 private:
  void read_rows(const std::string& path);
  std::string folder_;
  std::map<int64_t, Json> lines_;
  std::vector<checkpoint::CheckpointSummary> checkpoints_;
};

}  // namespace lockstep::launcher::cli
