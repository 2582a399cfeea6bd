// A run as a Slurm job: the script for sbatch.
#pragma once

#include <string>
#include <vector>

#include "launcher/supervise/launch/options.h"

namespace lockstep::launcher {

struct SlurmJob {
  std::string name;                // of the job
  int64_t nodes = 1, ranks = 1;    // hosts, and ranks per host
  bool gpus = false;               // each rank takes one: --gpus-per-node, where `options` ask for none
  int64_t minutes = 0;             // --time, unless `options` have one; 0: unknown, the partition's default
  double grace = 30;               // seconds from the stop request to the end of the job
  std::string options;             // for sbatch, as a user writes them: "--partition=gpu --time=2:00:00"
  std::vector<std::string> words;  // trainrun and its arguments
  std::string folder;              // its working directory
};

// A script that starts the run, forwards Slurm's SIGTERM to trainrun, and requeues the job after a stop that
// saved: the same command then resumes.
std::string slurm_script(const SlurmJob& job);

// Pipes the script to sbatch. Returns sbatch's output; UserError when sbatch is not found or refuses.
std::string submit(const std::string& script);

}  // namespace lockstep::launcher
