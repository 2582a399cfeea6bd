// The first screen of trainrun --help: common commands, then all of them.
#include "launcher/cli/commands.h"

namespace lockstep::launcher::cli {

std::string help_text() {
  return R"(trainrun: train a model on a mesh of ranks; stop it, resume it on any number of ranks, with the same bits.

  trainrun --nproc 2 configs/quickstart.json               train on 2 ranks into runs/quickstart; call it again, on 3, to continue
  trainrun --nproc auto config.json --optim.lr=3e-4        one rank per core; any config key is an option
  trainrun --nproc 2:4 --max-restarts 3 config.json        continue after a rank dies, with 2 to 4 ranks; with 4 when they are back
  trainrun --hosts a:4,b:4 config.json                     ranks on several hosts; --nnodes as in torchrun, Slurm: docs/hosts.md
  trainrun --simulate 8 config.json                        8 ranks as threads of one process: the same bits, without MPI
  trainrun --nproc 2 ./gpt --name=mine                     your own program instead of a config; in Python: train.py

  trainrun plan --nproc 8 config.json                      predict memory, time and limits before any rank is started
  trainrun show config.json --batch.micro=8                the resolved config       trainrun show --reference|--schema   all keys
  trainrun show --graph step.svg --nproc 4 config.json     a picture of a step: computation, communication, waits
  trainrun ckpt ls runs/quickstart                         checkpoints               trainrun ckpt verify PATH|diff A B|prune RUN|...   trainrun ckpt --help
  trainrun generate runs/quickstart --prompt "The "        text from a checkpoint    trainrun report RUN  a page about a run
  trainrun import-hf DIR --name=mine                       a Hugging Face model      trainrun export-hf runs/mine OUT --dtype=bf16   and back
  trainrun replay --step 40 runs/quickstart                recompute a step          trainrun bisect A B  where two runs diverge
  trainrun top runs/quickstart                             a running job, live       trainrun autopsy RUN   after a failure: where each rank was
  trainrun flight runs/quickstart/logs/attempt-1           last collectives          trainrun doctor        check this machine for runs
  trainrun explain optim.clip                              a key, op, code or topic  trainrun env                versions, processor, variables

Flags of run (trainrun run --help):  --nproc N|auto|MIN:MAX   --simulate N   --max-restarts N[/TIME]   --timeout TIME   --env NAME=VALUE
                                     --grace SECONDS   --deadline SECONDS   --profile[=N]   --dry-run   trainrun completion bash|zsh|fish   trainrun man
Ctrl-C or SIGTERM finishes the step, saves and exits with 80; a second one kills at once.
Exit codes: 0 done, 1 your program failed, or replay, bisect, ckpt diff or doctor found something, 2 wrong input, 70 bug in Lockstep, 75 a rank was lost, 80 stopped and saved.
)";
}

}  // namespace lockstep::launcher::cli
