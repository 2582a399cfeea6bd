// A run as a Slurm job: the script that sbatch is given.
#pragma once

#include <string>
#include <vector>

#include "launcher/supervise/options.h"

namespace lockstep::launcher {

struct SlurmJob {
  std::string name;                // of the job
  int64_t nodes = 1, ranks = 1;    // hosts, and ranks of each
  bool gpus = false;               // each rank takes one: --gpus-per-node, where `options` ask for none
  int64_t minutes = 0;             // --time, where `options` have none; 0: not known, the partition's default
  double grace = 30;               // seconds from the stop request to the end of the job
  std::string options;             // of sbatch, as a user writes them: "--partition=gpu --time=2:00:00"
  std::vector<std::string> words;  // trainrun and its arguments
  std::string folder;              // where it is started
};

// A script that starts the run, passes Slurm's SIGTERM on to trainrun, and has the job queued again after a
// stop that saved: the same command then goes on from there.
std::string slurm_script(const SlurmJob& job);

// Gives the script to sbatch, on its stdin. Returns what sbatch says; UserError where it is not found or
// refuses.
std::string submit(const std::string& script);

}  // namespace lockstep::launcher
