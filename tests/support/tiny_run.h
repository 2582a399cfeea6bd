// A small model trained in one process, ranks as threads: what the train tests compare as strings.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile/compile.h"
#include "compiler/runtime/step_recorder.h"
#include "core/models/family.h"
#include "core/optim/optimizer.h"

namespace lockstep::tests {

struct TinyRun {
  std::string model = "gpt";
  DType compute = DType::f32;
  bool float8 = false;  // linear layers multiply in it; `compute` is bf16
  Float8Options float8_options = {};
  int ranks = 1;
  Mesh mesh{{}, {}};  // without dims: `ranks` on dp_replicate
  int zero = 3;
  int64_t ranks_per_node = 0;
  int64_t global = 24, micro = 4, lanes = 0;
  int64_t steps = 3;
  double dropout = 0;
  double clip = 1.0;
  int64_t mask_every = 0;  // every so many targets is ignored
  int64_t context = 12, width = 24, depth = 2, heads = 4, kv_heads = 2, vocab = 29;
  compiler::CompileOptions options = {};
  std::set<int64_t> blocked = {};  // steps whose norm is above its limit, so that they are not applied
  int64_t flipped = 0;             // step before which rank 1 has a bit flipped in its first weight; 0: none
  std::string load = {}, save = {};  // folders of checkpoints: the run goes on from the newest in `load`, and
                                     // leaves one in `save` at its end
  std::vector<PlacementRule> rows = {};  // beside the model's own
  // Of the state; empty: AdamW with a rate of 1e-2 behind two steps of warm-up.
  std::function<std::unique_ptr<Optimizer>(State& state)> optimizer = {};
  // Called on every rank after each step, on all at once, with what the step was fed.
  std::function<void(const LiveMesh& mesh, compiler::Step& step, const compiler::StepInput& fed)> after_step =
      {};
  // Called on every rank after its last step, one rank at a time.
  std::function<void(const LiveMesh& mesh, const compiler::Step& step)> observe = {};
  // The last step is traced where this is there: called before observe, as it is.
  std::function<void(const compiler::Step& step, const compiler::TracedStep& traced)> traced = {};
};

struct TinyResult {
  std::vector<std::string> losses, norms;  // one per step, shortest text
  std::string hash, certificate;
  std::string loaded;       // hash of the state that the run went on from
  int64_t state_bytes = 0;  // of the fullest rank
  compiler::Recompute recompute;
  int64_t arena = 0;    // bytes
  std::string differs;  // what the comparison of replicas said, and of which step
  bool operator==(const TinyResult&) const = default;
};

// Trains on tokens that are a function of (step, sample, position). All ranks are checked to report the same;
// rank 0's result is returned.
TinyResult train_tiny(const TinyRun& run);
// Equal losses, norms and state as strings, and what promises them; `what` is said of a difference.
void expect_same(const TinyResult& a, const TinyResult& b, const std::string& what);
void expect_same_bits(const TinyResult& a, const TinyResult& b,
                      const std::string& what);  // without the certificate
// Relative difference of two numbers given as text.
double relative_difference(const std::string& a, const std::string& b);

}  // namespace lockstep::tests
