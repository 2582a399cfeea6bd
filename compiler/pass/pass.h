// The context of every pass. A pass is a verb: Graph simplify(Graph, const PassContext&).
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// When weights split over dp_shard (ZeRO 3) are gathered. The same holds for weights of DDP in bf16 if each
// rank has one micro-batch, but these are kept until the step ends. Bits do not depend on it.
enum class GatherWhen {
  step,         // once, before the bodies, and kept for all of them
  micro_batch,  // in every body, bucket by bucket; freed after use
  layers,       // once, bucket by bucket: the calls between two buckets run for all micro-batches of the rank
};

enum class Backend {
  native,     // generated kernels and libraries, fused, in a static arena
  eager,      // the same kernels op by op, each value in a buffer of its own
  reference,  // the slow evaluator
};
Backend parse_backend(const std::string& word);  // UserError listing the choices

class Target;

// Values of CompileOptions::memory_budget that are not bytes.
// No limit on the arena.
inline constexpr int64_t kRecomputeNothing = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kRecomputeFull = 0;  // recompute everything that makes the arena smaller

// Value of CompileOptions::tp_pieces: the number that shortens the step most, by CompileOptions::travel.
inline constexpr int64_t kPiecesByRates = 0;

// Threads of options that name none: 1, or the number that a Session has set (the cores of its host divided
// by the ranks on it).
int default_threads();
void set_default_threads(int threads);

// Rates that compare products with collectives of model dims, and recomputation with copies to the host. They
// describe the device and the links inside a host, whatever the mesh, so that a step has the same calls on
// any number of data ranks.
struct TravelRates {
  double flops = 6e14;      // of products, per second
  double bandwidth = 3e11;  // bytes per second that a rank receives
  double latency = 4e-5;    // seconds of a collective of no bytes
  // Elements of a product's output that the device computes at a time (132 multiprocessors with tiles of 128
  // x 256); each further product wastes a quarter of it.
  double wave = 4.3e6;
  double memory = 4e12;  // bytes per second that calls read and write
  double launch = 3e-6;  // seconds of a call in addition to its work
  // Bytes per second between device and host memory, each way; 0: they are one memory, and computation stops
  // for copies.
  double host = 5.3e10;
  double host_latency = 1e-5;  // seconds of a copy of no bytes
};

struct CompileOptions {
  Backend backend = Backend::native;
  bool fusion = true;
  int threads = default_threads();          // per rank; bits do not depend on it
  int64_t bucket_bytes = int64_t{4} << 20;  // gradients travel in buckets of about this size
  // Weights that bodies gather travel in buckets of about this size; 0: bucket_bytes.
  int64_t gather_bytes = 0;
  GatherWhen gather = GatherWhen::micro_batch;
  // For GatherWhen::micro_batch and layers: gathered again for backward; false: kept from forward on.
  bool reshard_after_forward = true;
  bool invariant = true;  // sums by the tree over lanes; false ("free"): the library's own reductions
  // The device's target; null: the Session's, else the CPU's. The reference backend always runs on the CPU.
  const Target* target = nullptr;
  bool capture = true;  // the step becomes one captured program where the device can (CUDA graphs)
  std::vector<std::string> skip_passes;   // by name; only rows of the pipeline that allow it
  std::vector<std::string> extra_passes;  // registered by register_pass, each after its row of the pipeline
  std::string cache_dir;                  // of kernels; "" = the default folder
  // Bytes that the arena of a training step may take on each rank: activations and workspaces, without state,
  // gradient sums and their exchange. Values that do not fit are not kept for the backward pass, which
  // recomputes them. Bits do not depend on it.
  int64_t memory_budget = kRecomputeNothing;
  // Values that do not fit but are cheaper to copy than to recompute wait in host memory between forward and
  // backward; the copies overlap with the calls. memory_budget must be bytes. Bits do not depend on it.
  bool offload_activations = false;
  // Moments that only updates read are stored in host memory and come to the device bucket by bucket for
  // their update. Bits do not depend on it.
  bool offload_moments = false;
  // The most neighbouring micro-batches of a rank that run as one, call by call (a divisor of their number).
  // They run like this only if none depends on another: no tables by rows, no rounds, no model dims. It takes
  // as many arenas. On a GPU, products take algorithms that are good for that many, and the certificate names
  // them; with one setting the bits are the same on any number of ranks.
  int64_t together = 1;
  // On tp: values between sharded weights are sharded along the tokens, instead of whole on each rank.
  bool sequence_parallel = true;
  // On tp: into how many pieces the rows of a forward product are cut. One piece travels, by the gather of
  // its input or the exchange of its output, while another is computed. 1: whole; kPiecesByRates.
  int64_t tp_pieces = 1;
  TravelRates travel;
  // The target represents a device that is not present, in a plan that is not run: workspaces of products are
  // not counted, since they belong to the device.
  bool stands_in = false;
  std::string precision = "fp32";  // fp32, tf32, bf16, fp16: of compute; named in the numerics certificate
};

// Placement along dp_shard of the rows of a sparse table that each rank needs: those of the ids that it owns.
// Every rank has the whole size of dim 0; surplus rows belong to no id.
inline Placement OwnedRows() { return Shard(0, 0); }

struct PassContext {
  Mesh mesh;
  std::function<Layout(const std::string&)> layout_of;  // of state, by FQN
  CompileOptions options;
  // The row of placements that places a tensor on a mesh dim, as text; "" for none. Errors name the wrong row
  // with it. May be empty.
  std::function<std::string(const std::string& fqn, const std::string& mesh_dim)> row_of = {};
  // Whether a tensor is a sparse table or a moment of one; empty: none is.
  std::function<bool(const std::string& fqn)> is_sparse = {};
  int64_t micro_batches = 0;             // of a step, over all ranks; 0: not a step
  std::vector<ValueId> recomputed = {};  // values that `rematerialize` recomputes, chosen by plan_step
  // In rounds with invariant numerics; otherwise gradients travel in f32, as partial sums.
  bool gradients_travel_as_they_are = false;
};

using Pass = std::function<Graph(Graph, const PassContext&)>;

}  // namespace lockstep::compiler
