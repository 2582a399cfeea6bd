// What every pass sees. A pass is a verb: Graph simplify(Graph, const PassContext&).
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// When whole weights that lie split over dp_shard (ZeRO 3) are gathered; so are those of DDP in bf16 where
// each rank has one micro-batch, but that these are kept until the step ends. It changes no bit.
enum class GatherWhen {
  step,         // once, before the bodies, and kept for all of them
  micro_batch,  // in every body, bucket by bucket, and freed after use
  layers,       // once, bucket by bucket: the calls between two buckets run for all micro-batches of the rank
};

enum class Backend {
  native,     // generated kernels and libraries, fused, in a static arena
  eager,      // the same kernels op by op, each value in a buffer of its own
  reference,  // the slow evaluator
};
Backend parse_backend(const std::string& word);  // UserError listing the choices

class Target;

// Values of CompileOptions::memory_budget that are no bytes.
inline constexpr int64_t kRecomputeNothing =
    std::numeric_limits<int64_t>::max();      // the arena may be as large as it is
inline constexpr int64_t kRecomputeFull = 0;  // whatever makes the arena smallest is recomputed

// Value of CompileOptions::tp_pieces: as many as shorten the step by CompileOptions::travel.
inline constexpr int64_t kPiecesByRates = 0;

// Threads of options that name none: 1, or what a Session has set (the cores of its host over the ranks on
// it).
int default_threads();
void set_default_threads(int threads);

// Rates by which products and collectives of model dims are set beside each other, and what is computed again
// beside copies to the host. They are those of the device and of links inside a host, whatever the mesh: a
// step has the same calls on any number of data ranks.
struct TravelRates {
  double flops = 6e14;      // of products, per second
  double bandwidth = 3e11;  // bytes per second that a rank receives
  double latency = 4e-5;    // seconds of a collective of no bytes
  double wave = 4.3e6;      // elements of a product's output that the device computes at a time (132
                            // multiprocessors with tiles of 128 x 256); a product more wastes a quarter of it
  double memory = 4e12;     // bytes per second that calls read and write
  double launch = 3e-6;     // seconds that a call takes beside its work
  double host = 5.3e10;  // bytes per second between the device and its host's memory, each way; 0: they are
                         // one memory, and what is computed stands still for copies
  double host_latency = 1e-5;  // seconds of a copy of no bytes
};

struct CompileOptions {
  Backend backend = Backend::native;
  bool fusion = true;
  int threads = default_threads();          // per rank; no bit depends on it
  int64_t bucket_bytes = int64_t{4} << 20;  // gradients travel in buckets of about this size
  int64_t gather_bytes =
      0;  // weights that bodies gather travel in buckets of about this size; 0: bucket_bytes
  GatherWhen gather = GatherWhen::micro_batch;
  bool reshard_after_forward = true;  // of GatherWhen::micro_batch and layers: gathered again for backward;
                                      // false: kept from forward on
  bool invariant = true;  // sums by the tree over lanes; false ("free"): the library's own reductions
  const Target* target = nullptr;  // of the device; null: the Session's, else the CPU's. The reference
                                   // backend always runs on the CPU
  bool capture = true;             // the step becomes one captured program where the device can (CUDA graphs)
  std::vector<std::string> skip_passes;   // by name; only rows of the pipeline that allow it
  std::vector<std::string> extra_passes;  // registered by register_pass, each behind its row of the pipeline
  std::string cache_dir;                  // of kernels; "" = the default folder
  // Bytes that the arena of a training step may take on each rank: activations and workspaces, without state,
  // gradients' sums and their exchange. What does not fit is not kept for the backward pass, which computes
  // it again. No bit depends on it.
  int64_t memory_budget = kRecomputeNothing;
  // Of what does not fit, what is cheaper to copy than to compute again waits in the host's memory between
  // forward and backward; the copies travel beside the calls. memory_budget is bytes. No bit depends on it.
  bool offload_activations = false;
  // Moments that updates alone read lie in the host's memory and come to the device bucket by bucket while
  // they are updated. No bit depends on it.
  bool offload_moments = false;
  // Neighbouring micro-batches of a rank run as one, call by call, up to so many (a divisor of theirs), where
  // one of them needs no other: no tables by rows, no rounds, no model dims. It takes as many arenas. On a
  // GPU products take algorithms that are good for so many, and the certificate names them; on one of any
  // number of ranks the bits are the same.
  int64_t together = 1;
  bool sequence_parallel =
      true;  // on tp: what lies between sharded weights is cut along the tokens, not whole on each rank
  // On tp: into how many pieces the rows of a forward product are cut beside the gather of its input or the
  // exchange of its output, so that one piece travels while another is computed. 1: whole; kPiecesByRates.
  int64_t tp_pieces = 1;
  TravelRates travel;
  bool stands_in = false;  // the target stands for a device that is not here, in a plan that nobody runs:
                           // workspaces of products are not counted, which are the device's own
  std::string precision = "fp32";  // fp32, tf32, bf16, fp16: of compute; named in the numerics certificate
};

// Along dp_shard: rows of a sparse table that each rank has for itself, those of the ids that it owns. Every
// rank has the whole size of dim 0: what is over belongs to no id.
inline Placement OwnedRows() { return Shard(0, 0); }

struct PassContext {
  Mesh mesh;
  std::function<Layout(const std::string&)> layout_of;  // of state, by FQN
  CompileOptions options;
  // The row of placements that says where a tensor lies on a mesh dim, as text; "" for none. Names a wrong
  // row in errors; may be empty.
  std::function<std::string(const std::string& fqn, const std::string& mesh_dim)> row_of = {};
  std::function<bool(const std::string& fqn)> is_sparse =
      {};                                // a sparse table, or a moment of one; empty: none
  int64_t micro_batches = 0;             // of a step, over all ranks; 0: not a step
  std::vector<ValueId> recomputed = {};  // what `rematerialize` gives up: chosen by plan_step
  bool gradients_travel_as_they_are =
      false;  // in rounds, and invariant numerics; else in f32, as partial sums
};

using Pass = std::function<Graph(Graph, const PassContext&)>;

}  // namespace lockstep::compiler
