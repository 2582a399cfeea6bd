// What a program of the user's own is written with, beside models and optimizers: data, checkpoints, and
// compile() on two tensors.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "compiler/compile.h"
#include "launcher/data/dataset.h"

namespace lockstep {

struct TokenFileOptions {
  int64_t global_batch = 8;  // samples per step, over all ranks
  int64_t micro_batch = 1;
  int64_t context = 128;  // tokens per sequence
  int64_t vocab = 65536;  // every token read must be below it
  int64_t lanes = 0;      // of the reduction; 0: default_lanes
  std::string dtype = "uint16";
  std::string order = "sequential";  // or "shuffle"
  uint64_t seed = 0;
};

// Files of token ids: raw, or with the 1024-byte header of magic 20240520. Sample order is a function of the
// step alone.
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

// compile() for a function of ids and targets, i32 [micro, context] each. Threads: those of the Session.
compiler::Step compile(State& state, const TokenFile::Spec& spec,
                       const std::function<Loss(Tensor ids, Tensor targets)>& function,
                       compiler::CompileOptions options = {});

struct CheckpointOptions {
  int64_t every = 500;
  int keep = 3;
};

// Checkpoints of a run folder: DIR/ckpt/step-N. Of a folder of step folders, as RUN/best, or one step folder,
// they are read and not written.
class Checkpoint {
 public:
  Checkpoint(const std::string& dir, CheckpointOptions options = {});
  // Loads the newest whole checkpoint into the state, or, of a folder that is new, materialises it. Returns
  // the steps that are done. Collective over the state's mesh. UserError for a folder of something else:
  // weights of other programs, several runs, a part of a run.
  int64_t resume(State& state);
  // Saves when `done` is a multiple of `every`. Collective. UserError where the folder is read alone.
  void save(int64_t done, const State& state);

 private:
  std::string dir_;
  CheckpointOptions options_;
};

// The state starts from weights at `path`: of a run, its best folder, a step folder, or safetensors files by
// FQN (a file, an index, or a folder of either). What the layers keep beside them, as running means, comes
// too, where the path has it; optimizers begin anew. Adapters of a run go on as adapters where the state has
// the same ones (names, rank, alpha), else they are merged into the weights; a line of the log says which. It
// holds from now on wherever the state starts: materialize(), resume() of a new folder, train() of a new run.
// Call it behind models, on every rank; of several calls all count, in their order. UserError listing weights
// that are missing or of another shape, and of safetensors files those that are extra, too; for a path that
// names no weights; for safetensors files whose sizes or bytes differ between ranks.
struct WeightOptions {
  std::string at = {};   // a path of the state, as "policy": stored names are looked up below it
  bool partial = false;  // what only one of both sides has is left as it is, and the log lists it
};
void load_weights(State& state, const std::string& path, const WeightOptions& options = {});

}  // namespace lockstep
