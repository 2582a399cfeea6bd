// Runs in a real Slurm of two hosts: a job that is submitted, an allocation, ranks that srun starts by PMIx
// or without a word of how they talk, jobs that are preempted, in time or by SIGKILL, and go on by
// themselves, a job array.
#include "tests/hosts/host_run.h"

namespace lockstep::tests {
namespace {

class SlurmRuns : public HostRun {
 protected:
  void SetUp() override {
    const std::string missing = lacks({"slurmctld", "slurmd", "munged", "srun", "sbatch"});
    if (!missing.empty()) GTEST_SKIP() << missing;
    HostRun::SetUp();
  }
  Result on_slurm(const std::string& script, double seconds = 90) {
    return on_hosts(
        2,
        "wait_for() { for ((i = 0; i < 600; i++)); do ! eval \"$1\" || return 0; sleep 0.1; done; }\n" +
            script,
        seconds, "slurm.sh");
  }
};

TEST_F(SlurmRuns, AnAllocationIsTakenWhole) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=20"});
  auto result = on_slurm(
      "at 0 salloc -Q -N2 --ntasks-per-node=2 $trainrun --name=whole c.json --train.steps=20\n"
      "at 0 salloc -Q -N2 --ntasks-per-node=2 $trainrun --nproc 1 --name=each c.json --train.steps=20\n"
      "at 0 srun -N2 -n4 --mpi=none $trainrun worker c.json\n"
      "at 0 srun -N2 -n4 $trainrun c.json\n"
      "at 0 srun -N2 --ntasks-per-node=2 --mpi=pmix $trainrun worker --name=pmix c.json --train.steps=20\n");
  expect_same_run("one", "whole");
  expect_same_run("one", "each");
  expect_same_run("one", "pmix");
  EXPECT_HAS(RunRecord("runs/whole").log(0), "mesh [dp_replicate=4]");
  EXPECT_HAS(RunRecord("runs/each").log(0), "mesh [dp_replicate=2]");
  EXPECT_HAS(result.output,
             "and nothing says how the ranks talk (no MPI, no PMI): each would be a run of its own");
  EXPECT_HAS(result.output, "this trainrun is one of 4 ranks that mpirun, srun or torchrun started");
}

// SIGTERM, a save, exit code 80, a place in the queue, and on from there.
TEST_F(SlurmRuns, AJobThatIsPreemptedGoesOnByItself) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=3000", "--log.every=1000",
         "--checkpoint.every=1000"});
  auto result = on_slurm(R"(
at 0 $trainrun --slurm=-plow --nnodes 2 --nproc 2 --name=job c.json --train.steps=3000 --log.every=1000 --checkpoint.every=1000
wait_for 'grep -q "starting at step 1" runs/job.slurm-1.log'
sleep 1
at 0 srun -phigh -N2 -n2 --exclusive hostname
wait_for 'grep -q "^done: 3000" runs/job.slurm-1.log'
cat runs/job.slurm-1.log
)",
                         120);
  EXPECT_HAS(result.output, "Submitted batch job 1\n");
  EXPECT_HAS(result.output, "stopped on request after step ");
  EXPECT_HAS(result.output, "resumed from");
  EXPECT_HAS(result.output, "done: 3000 steps");
  EXPECT_EQ(final_hash("one"), final_hash("job"));
}

// The ranks of h1 do not come to their step's end before SIGKILL: Slurm queues the job again, and it goes on
// from what was saved.
TEST_F(SlurmRuns, AJobThatDoesNotStopInTimeIsKilledAndGoesOnByItself) {
  const std::vector<std::string> run{"c.json", "--train.steps=600", "--log.every=1000",
                                     "--checkpoint.every=20", "--checkpoint.async=false"};
  train({"--nproc", "1", "--name=one", run[0], run[1], run[2], run[3], run[4]});
  // Slurm lets what it ends go on first (SIGCONT): halted again at once, before a step is over.
  scratch_.write("halt.sh",
                 "pids=$(pgrep -f trainrun.worker)\nwhile kill -STOP $pids 2>/dev/null; do :; done\n");
  auto result =
      on_slurm(str("at 0 $trainrun --slurm=-pbrief --nnodes 2 --nproc 2 --name=job ", join(run, " "), R"(
wait_for '[[ -e runs/job/ckpt/step-60 ]]'
at 1 nice -n -19 bash $PWD/halt.sh &
at 0 srun -phigh -N2 -n2 --exclusive hostname
wait_for 'grep -q "^done: 600" runs/job.slurm-1.log'
cat runs/job.slurm-1.log
)"),
               120);
  EXPECT_HAS(result.output, "DUE TO PREEMPTION");
  EXPECT_EQ(result.output.find("stopped on request after step"), std::string::npos) << result.output;
  EXPECT_HAS(result.output, "resumed from");
  EXPECT_HAS(result.output, "done: 600 steps");
  EXPECT_EQ(final_hash("one"), final_hash("job"));
}

// Each task of an array is a run of its own, by its name.
TEST_F(SlurmRuns, AJobArrayIsARunForEachTask) {
  for (int seed : {1, 2})
    train(
        {"--nproc", "1", str("--name=one-", seed), "c.json", "--train.steps=20", str("--train.seed=", seed)});
  scratch_.write("array.sbatch",
                 str("#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=2\n", TRAINRUN,
                     " --name=task-$SLURM_ARRAY_TASK_ID c.json --train.steps=20 "
                     "--train.seed=$SLURM_ARRAY_TASK_ID\n"));
  auto result = on_slurm(R"(
at 0 $trainrun --slurm='--array=1-2' --nnodes 2 --nproc 2 --name=job c.json || true
at 0 sbatch --wait --array=1-2 array.sbatch
)",
                         120);
  EXPECT_HAS(
      result.output,
      "--slurm: --array=1-2 makes a job array, whose tasks would all be this one run; print the script");
  for (int seed : {1, 2}) EXPECT_EQ(final_hash(str("one-", seed)), final_hash(str("task-", seed)));
  EXPECT_NE(final_hash("one-1"), final_hash("one-2"));
  EXPECT_HAS(RunRecord("runs/task-2").log(0), "mesh [dp_replicate=2]");
}

}  // namespace
}  // namespace lockstep::tests
