// StepPlan: what a step is built from. Data only, made by compile().
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/pass.h"
#include "compiler/program/id_bounds.h"
#include "compiler/reduce/lanes.h"
#include "compiler/schedule/gathers.h"
#include "compiler/schedule/phases.h"

namespace lockstep::compiler {

class KernelSet;

// One field of a micro-batch as the step function reads it.
struct FieldType {
  std::string name;
  DType dtype = DType::i32;
  Shape shape;  // dim 0 counts the sequences of a micro-batch
};

// What the backward pass recomputes to save memory, and what it costs.
struct Recompute {
  int64_t values = 0;      // of the forward pass; 0: none
  double extra_flops = 0;  // of contractions and attention, over those of the step without recomputing; 0.33
                           // is a whole forward pass
  int64_t arena = 0;       // bytes, as planned
  int64_t arena_without = 0;  // bytes without recomputing
  bool operator==(const Recompute&) const = default;
};

// What a step is built from: data only, made by compile().
struct StepPlan {
  Phases phases;
  Graph count, seed, body, copies, maxima, cast, scales;  // lowered for the backend
  Recompute recompute;
  std::shared_ptr<const Graph>
      plain_body;  // the body without recomputing, which the certificate names; null where it is `body`
  std::shared_ptr<const Graph> plain_seed;  // alike, where weights come in float8: that of whole ones
  std::vector<Graph> fragments;
  std::shared_ptr<const KernelSet> kernels;  // null for the reference backend
  CompileOptions options;
  std::vector<FieldType> fields;
  std::vector<SourceLine> terms;  // of the loss, as the user wrote them
  std::vector<IdBound> ids;       // what the step asks of its fields' whole numbers
  int64_t micro_batches = 1;      // per step, over all ranks
  int64_t lanes = 1;
  LaneOrder order = LaneOrder::contiguous;
  std::map<std::string, Layout> layouts;  // of the state that the step reads, on all mesh dims
  // Per host scalar, the tensors of the state that the step computes from it.
  std::map<std::string, std::vector<std::string>> of_scalars;
  std::set<std::string> on_host;  // of it: what lies in the host's memory
  int64_t body_within = 0;  // bytes of the body's arenas that copies to the host bring it down to; 0: none
};

GatherOptions gather_options(const CompileOptions& options);  // of the gathers of weights in bodies

// From a batch field of one micro-batch of a rank to that of the next, in bytes: a multiple of what devices
// align memory to.
inline int64_t slot_stride(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The values that decide whether a step's updates are made: the norms of gradients, then the step's loss,
// last.
std::vector<ValueId> update_gates(const Graph& whole);

// Shapes of the gradients of each bucket.
std::vector<std::vector<Shape>> bucket_shapes(const StepPlan& plan);
std::vector<DType> bucket_dtypes(const StepPlan& plan);  // of each bucket's gradients, as the body gives them

}  // namespace lockstep::compiler
