// What a run folder has recorded: the lines of metrics.jsonl, the checkpoints, and the config that a step was
// run with.
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
  int64_t last_step() const;                                       // the newest that is recorded; 0: none
  std::vector<std::string> checkpoints_before(
      int64_t step) const;  // step folders of sound structure, newest first
  const checkpoint::CheckpointSummary* checkpoint(int64_t step) const;  // of sound structure; null: none
  std::vector<int64_t> checkpoint_steps() const;                        // ascending, of sound structure
  std::vector<int64_t> steps_with(
      const std::string& quantity = "") const;  // steps of metrics.jsonl whose line has it, ascending

  // What is recorded of a step, all numbers and words of its line, as text: numbers as metrics.jsonl has
  // them. The last line of the step counts. State hash and certificate are those of the step's checkpoint
  // where the line has none.
  std::map<std::string, std::string> values(int64_t step) const;

  // The run as it was when it did `step`: of the first checkpoint from there on, else of the folder's
  // config.json; for a program of one's own, which has none, of its newest checkpoint.
  struct Then {
    RunConfig config;
    bool program = false;             // of a program of one's own
    std::string where;                // the file; "" for a program without a checkpoint
    std::string library, data, mesh;  // "" where they are not recorded
  };
  Then then(int64_t step) const;
  // How a program's run was started, as a shell takes it: "./program ARGS", and where; "" where the folder
  // does not say.
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
