// RunConfig: every key of a run with its default, help and rule, defined only here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/key.h"
#include "core/models/family.h"
#include "core/optim/kinds.h"
#include "core/tasks/task.h"
#include "launcher/config/data_config.h"
#include "launcher/config/float8_config.h"
#include "launcher/config/launch_config.h"
#include "launcher/config/lora_config.h"
#include "launcher/config/optim_group.h"
#include "launcher/config/placement_row.h"

namespace lockstep::launcher {

// limit of a mesh; planning for this many takes less than a minute
inline constexpr int64_t kMostRanks = 16384;

// A section whose other keys depend on its kind: `options` has the given ones, by name.
struct KindConfig {
  std::string kind;
  Json options = Json::object();
};
struct ModelConfig : KindConfig {
  ModelConfig() {
    kind = key(&kind, "model.kind", "gpt", "family of models; its options are the keys of this section",
               one_of(models::family_names()));
  }
  // An option of the family: the given value, else its default; `otherwise` if the family lacks the option.
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  void set(std::string_view name, const Json& value) { options[std::string(name)] = value; }
};
struct TaskConfig : KindConfig {
  TaskConfig() {
    std::vector<std::string> kinds = tasks::task_names();
    kinds.insert(kinds.begin(), "auto");
    kind = key(&kind, "task.kind", "auto",
               "the training task; auto: the usual task of the model's family; its options are the keys of "
               "this section",
               one_of(std::move(kinds)));
  }
};

struct MeshConfig {
  std::vector<int64_t> shape = key(
      &shape, "mesh.shape", {-1},
      "ranks along each mesh dimension; one of them may be -1: all remaining ranks", between(-1, kMostRanks));
  std::vector<std::string> dim_names =
      key(&dim_names, "mesh.dim_names", {"dp_replicate"},
          "what each mesh dimension splits over its ranks; dp_replicate: the batch (DDP), dp_shard: the "
          "batch and the state (ZeRO, FSDP: mesh.zero), tp: the matrices of a layer");
  int64_t zero =
      key(&zero, "mesh.zero", 3,
          "what dp_shard splits; 1: moments, 2: gradients too, 3: parameters too (FSDP)", between(1, 3));
  std::string gather = key(&gather, "mesh.gather", "auto",
                           "ZeRO 3: when whole weights are gathered; step: once per step; micro_batch: in "
                           "each micro-batch, before use; layers: bucket by bucket for all micro-batches; "
                           "auto: the fastest that fits (docs/parallelism.md)",
                           one_of({"auto", "step", "micro_batch", "layers"}));
  int64_t ranks_per_node = key(&ranks_per_node, "mesh.ranks_per_node", 0,
                               "consecutive ranks per host: gradients are exchanged within hosts first, then "
                               "across; 0: as the run was launched",
                               between(0, kMostRanks));
  bool reshard_after_forward = key(
      &reshard_after_forward, "mesh.reshard_after_forward", true,
      "ZeRO 3, weights gathered in each micro-batch: freed after forward and gathered again for backward; "
      "false: kept until their last use");
};

struct PlacementsConfig {
  std::vector<PlacementRow> rows =
      key(&rows, "placements", {},
          "placements that replace the model's own table: rows of a mesh dimension, a pattern of names (*, "
          "**, {a,b}) and replicate, shard(DIM) or shard(DIM,groups=N)",
          at_most_values(100));
};

struct BatchConfig {
  int64_t global =
      key(&global, "batch.global", 32, "samples per step, on any number of ranks", between(1, 0x1p24));
  int64_t micro =
      key(&micro, "batch.micro", 4, "samples per micro-batch; a divisor of batch.global", between(1, 0x1p20));
  int64_t lanes = key(
      &lanes, "batch.lanes", 0,
      "lanes of the reduction tree, a divisor of global / micro; 0: the largest divisor that is at most 16",
      between(0, 0x1p16));
};

struct TrainConfig {
  int64_t steps = key(&steps, "train.steps", 1000, "optimizer steps of the whole run, resumed parts included",
                      between(1, 1e12));
  int64_t seed = key(&seed, "train.seed", 1337, "seed of initialisation, dropout and the order of the data",
                     at_least(0));
  std::string precision =
      key(&precision, "train.precision", "fp32",
          "arithmetic of the model; weights, moments and sums stay fp32; fp16 has a loss scale; tf32: "
          "products in TF32; float8: bf16 with the products of linear layers in float8",
          one_of({"fp32", "tf32", "bf16", "fp16", "float8"}));
  std::string numerics =
      key(&numerics, "train.numerics", "invariant",
          "invariant: same bits on any number of ranks; free: the communication library's own reductions",
          one_of({"invariant", "free"}));
  std::string device = key(&device, "train.device", "auto",
                           "device of the step; auto: a GPU if there is one, else the CPU; cuda: rank i "
                           "takes GPU i of its host; plugin: a shared library's device",
                           one_of({"auto", "cpu", "cuda", "cuda:N", "plugin:PATH"}));
  int64_t eval_every = key(&eval_every, "train.eval_every", 0,
                           "steps between validations; 0: at the end only", between(0, 1e12));
  int64_t eval_batches =
      key(&eval_batches, "train.eval_batches", 8, "global batches per validation", between(1, 1e6));
  std::string monitor =
      key(&monitor, "train.monitor", "val_loss",
          "the validation metric that decides which is best, by its name in metrics.jsonl: val_accuracy");
  std::string monitor_mode = key(&monitor_mode, "train.monitor_mode", "min",
                                 "whether lower or higher values are better", one_of({"min", "max"}));
  int64_t patience = key(&patience, "train.patience", 0,
                         "early stopping: the run ends after this many validations in a row without a better "
                         "train.monitor; 0: never",
                         between(0, 1e12));
  double min_delta = key(&min_delta, "train.min_delta", 0.0,
                         "the improvement of train.monitor that counts for train.patience; any improvement "
                         "counts for the best checkpoint",
                         at_least(0));
  std::string init_from =
      key(&init_from, "train.init_from", "",
          "initial weights: a run (runs/NAME, runs/NAME/best, runs/NAME/ckpt/step-N), a safetensors file, an "
          "index of several, or a folder of Hugging Face; a run that resumes ignores it");
  std::vector<std::string> freeze = key(&freeze, "train.freeze", {},
                                        "globs of weights or layers that are not trained: they have no "
                                        "gradients or moments, and are not exchanged");
  LoraConfig lora;
  Float8Config float8;
  std::string on_nonfinite =
      key(&on_nonfinite, "train.on_nonfinite", "stop",
          "after a loss or gradient norm that is not finite, whose update is never made; stop: the run ends; "
          "skip: the next step; rewind: that, from the last checkpoint's state",
          one_of({"stop", "skip", "rewind"}));
  int64_t nonfinite_limit = key(&nonfinite_limit, "train.nonfinite_limit", 10,
                                "how many steps in a row may be skipped, and how often the run may go back "
                                "to one checkpoint, before it stops",
                                at_least(1));
  std::string on_spike =
      key(&on_spike, "train.on_spike", "warn",
          "after a loss or gradient norm above train.spike_factor times the median of train.spike_window "
          "steps; warn: a line; skip, rewind, stop: as train.on_nonfinite",
          one_of({"off", "warn", "skip", "rewind", "stop"}));
  double spike_factor =
      key(&spike_factor, "train.spike_factor", 10.0, "a spike exceeds the median by this factor", above(1));
  int64_t spike_window =
      key(&spike_window, "train.spike_window", 64,
          "number of steps for the median; from 16 steps on the median of those so far is used", at_least(2));
};

struct ScheduleConfig {
  std::string kind =
      key(&kind, "optim.schedule.kind", "constant", "how the learning rate falls after warm-up",
          one_of({"cosine", "linear", "constant", "wsd", "restarts", "plateau"}));
  int64_t warmup = key(&warmup, "optim.schedule.warmup", 0, "steps of linear warm-up", between(0, 1e12));
  double min_ratio = key(&min_ratio, "optim.schedule.min_ratio", 0.0,
                         "all but constant: the lowest learning rate as a share of optim.lr", between(0, 1));
  int64_t decay = key(&decay, "optim.schedule.decay", 0,
                      "wsd: steps of the fall at the end of the run; 0: a tenth of it", between(0, 1e12));
  int64_t period = key(&period, "optim.schedule.period", 0,
                       "restarts: steps of the first cosine; 0: a quarter of the run", between(0, 1e12));
  double growth = key(&growth, "optim.schedule.growth", 1.0,
                      "restarts: how many times as long each cosine is as the one before", at_least(1));
  std::string metric =
      key(&metric, "optim.schedule.metric", "loss",
          "plateau: the observed metric; loss: the mean training loss; a validation metric such as val_loss "
          "or val_accuracy: observed at each validation of train.eval_every");
  std::string mode = key(&mode, "optim.schedule.mode", "min",
                         "plateau: whether the metric should fall or rise", one_of({"min", "max"}));
  int64_t every =
      key(&every, "optim.schedule.every", 100,
          "plateau of the training loss: steps between observations of its mean over them", between(1, 1e12));
  double factor =
      key(&factor, "optim.schedule.factor", 0.1,
          "plateau: factor on the learning rate when the metric stops improving", between(1e-6, 0.999999));
  int64_t patience = key(&patience, "optim.schedule.patience", 10,
                         "plateau: tolerated observations without improvement", between(0, 1e12));
  double threshold =
      key(&threshold, "optim.schedule.threshold", 1e-4,
          "plateau: minimum improvement of the metric, in the unit of optim.schedule.threshold_mode",
          at_least(0));
  std::string threshold_mode =
      key(&threshold_mode, "optim.schedule.threshold_mode", "rel",
          "plateau: rel: the threshold is a share of the best metric; abs: in the metric's own unit",
          one_of({"rel", "abs"}));
  int64_t cooldown =
      key(&cooldown, "optim.schedule.cooldown", 0,
          "plateau: observations that are ignored after the learning rate was reduced", between(0, 1e12));
};

struct MuonConfig {
  double lr = key(&lr, "optim.muon.lr", 0.0, "muon: learning rate of its matrices after warm-up; 0: optim.lr",
                  at_least(0));
  double momentum =
      key(&momentum, "optim.muon.momentum", 0.95, "muon: momentum of its matrices", from_below(0, 1));
  bool nesterov =
      key(&nesterov, "optim.muon.nesterov", true, "muon: Nesterov momentum before orthogonalization");
  int64_t iterations = key(&iterations, "optim.muon.iterations", 5,
                           "muon: Newton-Schulz iterations of the orthogonalization", between(1, 99));
  std::string rate =
      key(&rate, "optim.muon.rate", "match_rms_adamw",
          "muon: how the learning rate depends on a matrix's shape; match_rms_adamw: updates as large as "
          "AdamW's, so that both share optim.lr; original: by sqrt(max(1, rows / columns))",
          one_of({"match_rms_adamw", "original"}));
  std::vector<std::string> adamw =
      key(&adamw, "optim.muon.adamw", no_hidden_matrices(),
          "muon: globs of matrices that AdamW updates, such as embeddings and the head; AdamW also updates "
          "every tensor that does not have two dims");
};

struct AdafactorConfig {
  double beta2_decay =
      key(&beta2_decay, "optim.adafactor.beta2_decay", -0.8,
          "adafactor: update t has the weight t^beta2_decay in the second moments", between(-10, 0));
  double eps2 =
      key(&eps2, "optim.adafactor.eps2", 1e-3, "adafactor: the minimum scale of a parameter", at_least(0));
  double d =
      key(&d, "optim.adafactor.d", 1.0, "adafactor: the largest root mean square of an update", at_least(1));
};

struct OptimConfig {
  std::string kind = key(&kind, "optim.kind", "adamw", "optimizer", one_of(optimizer_names()));
  double lr = key(&lr, "optim.lr", 3e-4, "learning rate after warm-up", at_least(0));
  std::vector<double> betas =
      key(&betas, "optim.betas", {0.9, 0.95},
          "adamw, lion, sparse_adam, muon's adamw: decay of the two moments", from_below(0, 1));
  double eps =
      key(&eps, "optim.eps", 1e-8,
          "adamw, sparse_adam, rmsprop, adagrad, rowwise_adagrad, muon's adamw: added to the root of "
          "the second moment",
          above(0));
  std::string moments =
      key(&moments, "optim.moments", "fp32",
          "adamw, lion, muon's adamw: dtype of stored moments; bf16 halves their memory, with stochastic "
          "rounding so that small changes add up; the bits are reproducible",
          one_of({"fp32", "bf16"}));
  bool offload = key(&offload, "optim.offload", false,
                     "store moments in the host's pinned memory and copy them through the device in each "
                     "update: the same bits, less device memory, slower steps (trainrun plan)");
  double weight_decay = key(&weight_decay, "optim.weight_decay", 0.1,
                            "weight decay of tensors with two or more dims", at_least(0));
  double momentum = key(&momentum, "optim.momentum", 0.0, "sgd, rmsprop: momentum", from_below(0, 1));
  bool nesterov = key(&nesterov, "optim.nesterov", false, "sgd: Nesterov momentum");
  double alpha = key(&alpha, "optim.alpha", 0.99, "rmsprop: decay of the mean of squares", from_below(0, 1));
  double clip =
      key(&clip, "optim.clip", 1.0, "largest global norm of the gradients; 0: no clipping", at_least(0));
  std::vector<OptimGroup> groups =
      key(&groups, "optim.groups", {},
          "rows of a glob of weights (params) and their own lr, which follows optim.schedule, or "
          "weight_decay; the first row that names a weight counts",
          at_most_values(100));
  MuonConfig muon;
  AdafactorConfig adafactor;
  ScheduleConfig schedule;
};

struct CompileConfig {
  std::string backend = key(&backend, "compile.backend", "native",
                            "native: generated kernels; eager: op by op; reference: the slow evaluator",
                            one_of({"native", "eager", "reference"}));
  int64_t threads = key(&threads, "compile.threads", 0, "threads per rank; 0: cores / ranks of this host",
                        between(0, 1024));
  int64_t bucket_bytes = key(&bucket_bytes, "compile.bucket_bytes", 0,
                             "bytes of gradients or weights per transfer; 0: enough for 90 % of the link's "
                             "bandwidth by the device's roofline, and at most a quarter of all gradients",
                             between(0, 0x1p40));
  std::string memory_budget =
      key(&memory_budget, "compile.memory_budget", "none",
          "bytes of activations and workspaces per rank, as in 2GiB: the rest is recomputed in the backward "
          "pass, with the same bits; none: keep all; full: keep the least");
  bool offload_activations =
      key(&offload_activations, "compile.offload_activations", false,
          "beyond compile.memory_budget, activations that are cheaper to copy than to recompute are kept in "
          "the host's pinned memory; copies overlap with computation; the same bits");
  int64_t together = key(&together, "compile.together", 1,
                         "how many of a rank's micro-batches may run as one, nearly as fast as one larger "
                         "micro-batch; for DDP and mesh.zero 1; another number gives other bits on a GPU",
                         between(1, 4096));
  int64_t tp_pieces = key(&tp_pieces, "compile.tp_pieces", 0,
                          "on tp: pieces of a product's rows, one exchanged while another is computed; 1: no "
                          "split; 0: on GPUs chosen by the roofline, on CPUs no split",
                          between(0, 16));
  bool capture =
      key(&capture, "compile.capture", true,
          "a GPU replays the whole step as one captured program; false: the host enqueues each call");
  bool fusion = key(&fusion, "compile.fusion", true, "fuse pointwise ops and reductions");
  std::vector<std::string> skip_passes =
      key(&skip_passes, "compile.skip_passes", {}, "passes of the pipeline to skip, for tests and diagnosis");
  std::vector<std::string> load_ops = key(&load_ops, "compile.load_ops", {},
                                          "shared libraries with ops, passes, models and tasks of one's own "
                                          "(LOCKSTEP_OP_LIBRARY), opened before the "
                                          "rest of the config is read; their code runs as you");
  std::vector<std::string> extra_passes =
      key(&extra_passes, "compile.extra_passes", {},
          "compiler passes of one's own, registered by register_pass of a library of compile.load_ops");
};

struct CheckpointConfig {
  std::string dir =
      key(&dir, "checkpoint.dir", "",
          "a folder, or s3://BUCKET/PREFIX: checkpoints are kept in DIR/NAME/ckpt and DIR/NAME/best "
          "instead of runs/NAME. Of an object store AWS_ENDPOINT_URL, AWS_REGION, "
          "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say where it is and who asks");
  int64_t every =
      key(&every, "checkpoint.every", 0, "steps between checkpoints; 0: at the end only", between(0, 1e12));
  bool async = key(&async, "checkpoint.async", true,
                   "true: a save copies the state and is written while training continues; false, or if a "
                   "copy does not fit: the run waits for each save");
  int64_t memory_every = key(&memory_every, "checkpoint.memory_every", 0,
                             "steps between checkpoints in the host's memory (/dev/shm), the newest of which "
                             "is kept until trainrun ends; a restart goes on from the newest; 0: none",
                             between(0, 1e12));
  int64_t keep =
      key(&keep, "checkpoint.keep", 3, "how many of the newest checkpoints are kept", between(1, 1e6));
  bool best =
      key(&best, "checkpoint.best", false,
          "also keep the state of the best validation (train.monitor), in runs/NAME/best (checkpoint.dir)");
  int64_t retries = key(&retries, "checkpoint.retries", 3,
                        "times that a save which the disk did not take (full, failing, gone) is tried again, "
                        "after 1, 2, 4, ... s, at most 30",
                        between(0, 1000));
  std::string on_failure = key(&on_failure, "checkpoint.on_failure", "stop",
                               "after a save that no retry mended; stop: the run ends with code 75; "
                               "continue: a warning, and the run goes on (its last save always counts)",
                               one_of({"stop", "continue"}));
};

struct ResumeConfig {
  std::vector<std::string> allow = key(
      &allow, "resume.allow", {},
      "changes since the checkpoint that a resumed run may make; model: keys that make another model of the "
      "same weights (heads, epsilon, ...)",
      one_of({"model"}));
};

struct LoadConfig {
  bool partial = key(&partial, "load.partial", false,
                     "continue from another model's checkpoint: load the tensors with equal names and types, "
                     "keep initial values for the others, and report what is skipped");
};

struct LogConfig {
  int64_t every = key(&every, "log.every", 10, "steps between lines of metrics.jsonl", between(1, 1e12));
  int64_t hash_every = key(&hash_every, "log.hash_every", 0, "steps between state hashes; 0: at the end only",
                           between(0, 1e12));
  int64_t norms_every =
      key(&norms_every, "log.norms_every", 0,
          "steps between norms of each parameter and of its gradient; 0: none", between(0, 1e12));
  bool tensorboard = key(&tensorboard, "log.tensorboard", false,
                         "also write the numbers of metrics.jsonl as TensorBoard event files in runs/NAME: "
                         "tensorboard --logdir runs");
  int64_t profile =
      key(&profile, "log.profile", 0,
          "steps traced into runs/NAME/trace-FIRST-LAST.json, from the third on after each start, for "
          "ui.perfetto.dev: host, kernels, collectives; they run call by call; 0: none",
          between(0, 1000));
};

struct WatchConfig {
  double deadline = key(&deadline, "watch.deadline", 60,
                        "seconds that ranks wait for a peer within steps; then the run ends (exit 75, "
                        "restartable) and names the rank that kept it waiting",
                        between(0.1, 1e9));
  double start_deadline = key(&start_deadline, "watch.start_deadline", 600,
                              "the same before the first step has ended, and while checkpoints are read or "
                              "written: a start compiles and loads",
                              between(0.1, 1e9));
};

struct VerifyConfig {
  std::string collectives = key(&collectives, "verify.collectives", "auto",
                                "checksums of what MPI (not NCCL) carries between ranks; auto: on over TCP, "
                                "off in shared memory; a damaged message ends the run (exit 75, restartable)",
                                one_of({"auto", "on", "off"}));
  int64_t replicas_every = key(
      &replicas_every, "verify.replicas_every", 1,
      "steps between comparisons of replicas (weights on several ranks) by checksums; 0: never", at_least(0));
  int64_t recompute_every =
      key(&recompute_every, "verify.recompute_every", 0,
          "steps between recomputations: all data ranks compute one micro-batch again and compare loss and "
          "gradients, as before each save; a rank that computes wrong is named; 0: never",
          at_least(0));
  std::string on_corruption =
      key(&on_corruption, "verify.on_corruption", "stop",
          "what follows where a rank computes wrong: stop (exit 75, not restarted), leave_out (trainrun goes "
          "on without its host, or its rank and GPU, from the last checkpoint), warn",
          one_of({"stop", "leave_out", "warn"}));
};

struct RunConfig {
  std::string name =
      key(&name, "name", "run", "name of the run: it writes to runs/NAME under the current folder");
  PlacementsConfig placements;
  ModelConfig model;
  TaskConfig task;
  MeshConfig mesh;
  DataConfig data;
  BatchConfig batch;
  TrainConfig train;
  OptimConfig optim;
  CompileConfig compile;
  CheckpointConfig checkpoint;
  ResumeConfig resume;
  LoadConfig load;
  LogConfig log;
  WatchConfig watch;
  VerifyConfig verify;
  LaunchConfig launch;
};

}  // namespace lockstep::launcher
