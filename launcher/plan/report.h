// PlanReport: the data of trainrun plan for a run; printed as text or as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/machine/run_device.h"
#include "launcher/memory/host.h"
#include "launcher/plan/budgets.h"
#include "launcher/plan/predict.h"

namespace lockstep::launcher {

// Tensors of the state whose names differ only in numbers.
struct PlanTensors {
  // "blocks.*.attn.qkv.weight"; moments: "optim.blocks.*.attn.qkv.weight.{exp_avg,exp_avg_sq}"
  std::string name;
  std::string role;        // "weights", "moments", "other state"
  std::string type;        // "f32[1152,384]"
  std::string placements;  // "tp: Shard(0,groups=3), dp_shard: Shard(0)" over mesh dims with more than one
                           // rank; "" if each rank has all of it
  int64_t count = 0;       // how many
  int64_t bytes = 0;       // of one, on the fullest rank
};

struct PlanUse {                // use of the micro-batch slots for a number of data ranks
  int64_t ranks = 0, most = 0;  // micro-batches of the fullest rank
  double used = 0;              // share of the slots
};

struct PlanReport {
  std::string name;
  std::string data;  // text about the existing data files; a plan does not read them
  int64_t ranks = 1;
  Mesh mesh;
  int64_t parameters = 0, frozen = 0;  // elements; frozen: the part that is not trained
  int64_t state_bytes_once = 0;        // fp32, all ranks together
  double flops = 0;                    // contractions and attention of a step, all ranks together
  std::string unit = "tokens";         // or "samples"
  int64_t units = 0;                   // of a step
  std::vector<PlanTensors> tensors;
  std::string whole_on_tp;  // text about parameters that tp does not split; "" if it splits all, or without
                            // tp

  // Bytes of the fullest rank, exact.
  int64_t state = 0, arena = 0, reduction = 0;
  std::vector<MemoryPart> regions;  // parts of the arena, then of the reduction

  // Memory on the fullest rank's device, or its host for the CPU: exact parts and bounds. `available` 0:
  // unknown.
  MemoryNeeds needs;
  int64_t available = 0;
  int64_t capacity = 0;    // of the roofline's device, if `available` is unknown; 0: also unknown
  bool on_device = false;  // not the host's own memory
  // For the CPU: the memory of this host, the number of these ranks on it, and what limits that number;
  // source "": not requested.
  HostMemory host;
  int64_t host_ranks = 0;
  std::string host_by;
  std::string ranks_of_host() const;  // "2 ranks", "64 of the 1024 ranks"
  std::string host_ranks_by() const;  // "", " (64 a host, by mesh.ranks_per_node)"
  std::string missing;                // why the plan was made without the device; else empty
  std::optional<Fit> nearest;         // set if it does not fit
  bool sought = true;                 // whether it was searched for
  bool fits() const { return available <= 0 || needs.total() <= available; }

  int64_t micro_batches = 0, micro = 0, lanes = 0, data_ranks = 1;
  int64_t buckets = 0, bucket_bytes = 0;  // of gradients, if they are sent; bytes: the target size
  std::string hosts;       // text about the exchange over hosts; "" if all ranks exchange directly
  std::string gathers;     // text about when ZeRO 3 gathers weights; "" if nothing is gathered for the body
  bool stands_in = false;  // workspaces of products are the device's bound, not the CPU's
  int64_t together = 0;    // micro-batches that run as one on the planned rank; 0: not requested
  int64_t tp_pieces = 1;   // pieces of forward products on tp, whose transfers overlap; 1: whole
  std::string whole_updates;  // text about gathers for updates that read whole tensors; "" for none
  // text about recomputed micro-batches (silent corruption check); "" without them
  std::string recomputations;
  std::string idle;           // text about ranks without a micro-batch, and the remedy; "" if all have one
  std::vector<PlanUse> uses;  // this number of data ranks and neighbouring ones
  int64_t advised_micro = 0;  // with at least 4 micro-batches per rank; 0: no advice
  bool one_round = false;     // each rank has one micro-batch, whose gradients are sent directly
  Prediction prediction;
  bool predicted = false;     // a roofline and calls to predict exist
  std::string no_prediction;  // else the reason
  std::string recomputed;     // text about recomputation under compile.memory_budget; "" without one
  std::string offloaded;      // text about values offloaded by compile.offload_activations; "" without it
  std::vector<PlanBudget> budgets;  // if requested, else empty
  bool invariant = true;
  std::string certificate;
};

// The tables of a run, without `needs`, `available`, `missing` and `nearest`. `roofline` null: no prediction,
// for the reason `why`.
PlanReport make_report(const RunConfig& config, const PaperRun& run, const Roofline* roofline,
                       const std::string& why = "");
// The same for a step without a config: uses only the parts of `config` outside of model and data.
PlanReport make_report(const RunConfig& config, const StepUnits& units, const State& state,
                       const PaperStep& step, const Roofline* roofline, const std::string& why);
// The roofline of a plan: the requested one, else that of the device, or of the kind of device in
// train.device; "" if unknown.
std::string roofline_word(const std::string& asked, const std::string& train_device,
                          const FoundTarget& found);
std::string no_roofline(const FoundTarget& found);  // why there is no roofline, and the way out
// A rank's needs, and the memory of its device or this host: `memory` bytes, or for 0 the known amount.
void add_memory(PlanReport& report, const RunConfig& config, const FoundTarget& found,
                const MemoryNeeds& needs, int64_t memory);
// Grouped rows of a state: weights, then moments, then the rest, in order of recording.
std::vector<PlanTensors> tensor_rows(const State& state);
// Numbers of data ranks around `ranks`, and how M micro-batches in `lanes` lanes use them. Ascending; `ranks`
// is one of them. `splits_gradients`, `invariant`: as in lane_order.
std::vector<PlanUse> uses_of(int64_t micro_batches, int64_t lanes, int64_t ranks,
                             bool splits_gradients = false, bool invariant = true);

// Idle ranks, if any, then eight lines: fit, memory, time, speed, limits.
std::string plan_screen(const PlanReport& report);
// The same, and sections of short tables.
std::string ranks_text(int64_t ranks);  // "1 rank", "8 ranks"
std::string plan_text(const PlanReport& report);

// The same as one JSON object. Keys are stable; new ones may be added. All bytes and counts are integers, all
// times seconds.
//   name, ranks, mesh {shape [], dim_names []}
//   model {parameters, trained, state_bytes}
//   tensors [{name, role, type, placements, count, bytes}]; bytes: of one, on the fullest rank
//   memory, exact, of the fullest rank:
//     {state, arena, reduction, total, regions [{name, bytes}],
//      device: of its device (the CPU: of its host), with bounds for libraries:
//        {parts [{name, bytes, bound}], total, exact, on_host (moments in host memory instead),
//         activations_on_host (offloaded there), evaluation_within (the part of an evaluation inside the
//         training step's memory), available | null, fits | null, nearest {micro, ranks, mesh, memory_budget,
//         bytes} | null, planned_without | null},
//      host: this host, for the CPU, with `ranks` of the ranks on it:
//        {ranks, exact, available, source, fits} | null}
//   step {micro_batches, micro, lanes, data_ranks, tokens or samples, flops, buckets, bucket_bytes,
//         exchange | null, weights_gathered | null, tp_pieces, whole_updates | null, computed_again | null}
//   collectives [{dims, op, count, bytes, seconds, exposed}], and copies of moments and activations between
//   host and device; times are null without a prediction
//   utilisation [{ranks, micro_batches, used}], advised_micro | null
//   prediction {roofline, measured_on, beyond_node, micro_batches, body, once, exposed, step,
//               tokens_per_s or samples_per_s, flops_per_s, peak_flops_per_s,
//               shares {arithmetic, memory, launches, exposed}} | null
//   no_prediction | null
//   budgets [{memory_budget, offload, offload_activations, bytes, arena, step | null, recomputed_values,
//             more_flops, offloaded_values, offloaded_bytes}], empty unless asked
//   certificate, same_bits_on: "any" or "this" number of data ranks
std::string plan_json(const PlanReport& report);

}  // namespace lockstep::launcher
