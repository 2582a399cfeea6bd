// The API of user programs in addition to models and optimizers: data, checkpoints, and compile() on two
// tensors.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "compiler/compile/compile.h"
#include "launcher/data/dataset.h"

namespace lockstep {

struct TokenFileOptions {
  int64_t global_batch = 8;  // samples per step, over all ranks
  int64_t micro_batch = 1;
  int64_t context = 128;  // tokens per sequence
  int64_t vocab = 65536;  // every token read must be below it
  int64_t lanes = 0;      // lanes of the reduction; 0: default_lanes
  std::string dtype = "uint16";
  std::string order = "sequential";  // or "shuffle"
  uint64_t seed = 0;
};

// Files of token ids: raw, or with the 1024-byte header of magic 20240520. The sample order depends only on
// the step.
class TokenFile {
 public:
  // UserError naming file and reason when it cannot be read.
  TokenFile(const std::string& path, TokenFileOptions options);
  struct Spec {
    int64_t global_batch, micro_batch, context, lanes;
  };
  Spec spec() const {
    return {options_.global_batch, options_.micro_batch, options_.context, options_.lanes};
  }
  // The data of step i, counted from 0.
  compiler::StepInput at(int64_t i) const;

 private:
  TokenFileOptions options_;
  launcher::data::Dataset data_;
};

// compile() for a function of ids and targets, i32 [micro, context] each. Uses the Session's threads.
compiler::Step compile(State& state, const TokenFile::Spec& spec,
                       const std::function<Loss(Tensor ids, Tensor targets)>& function,
                       compiler::CompileOptions options = {});

struct CheckpointOptions {
  int64_t every = 500;
  int keep = 3;
};

// Checkpoints of a run folder: DIR/ckpt/step-N. A folder of step folders such as RUN/best, or one step
// folder, is only read.
class Checkpoint {
 public:
  Checkpoint(const std::string& dir, CheckpointOptions options = {});
  // Loads the newest intact checkpoint into the state or, for a new folder, materializes the state. Returns
  // the number of finished steps. Collective over the state's mesh. UserError for a folder with something
  // else: weights of other programs, several runs, a part of a run.
  int64_t resume(State& state);
  // Saves when `done` is a multiple of `every`. Collective. UserError when the folder is read-only for this
  // object.
  void save(int64_t done, const State& state);

 private:
  std::string dir_;
  CheckpointOptions options_;
};

// Makes the state start from weights at `path`: a run, its best folder, a step folder, or safetensors files
// by FQN (a file, an index, or a folder of either). Buffers of layers such as running means are loaded if
// present; optimizers start fresh. Adapters of a run stay adapters if the state has the same ones (names,
// rank, alpha), else they are merged into the weights; a log line says which. It applies to every start of
// the state: materialize(), resume() of a new folder, train() of a new run. Call it after the models are
// built, on every rank; several calls apply in order. UserError listing weights that are missing or have
// another shape, and for safetensors files also extra ones; for a path without weights; for safetensors files
// whose sizes or bytes differ between ranks.
struct WeightOptions {
  std::string at = {};   // a path of the state such as "policy", below which stored names are looked up
  bool partial = false;  // tensors that only one side has are skipped and listed in the log
};
void load_weights(State& state, const std::string& path, const WeightOptions& options = {});

}  // namespace lockstep
