// StepPlan: the input from which a step is built. Only data, made by compile().
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/pass/pass.h"
#include "compiler/program/build/id_bounds.h"
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

// What the backward pass recomputes to save memory, and its cost.
struct Recompute {
  int64_t values = 0;  // values of the forward pass; 0: none
  // Of contractions and attention, relative to the step without recomputing; 0.33 is a whole forward pass.
  double extra_flops = 0;
  int64_t arena = 0;          // bytes, as planned
  int64_t arena_without = 0;  // bytes without recomputing
  bool operator==(const Recompute&) const = default;
};

// The input from which a step is built: only data, made by compile().
struct StepPlan {
  Phases phases;
  Graph count, seed, body, copies, maxima, cast, scales;  // lowered for the backend
  Recompute recompute;
  // The body without recomputing, which the certificate names; null if it equals `body`.
  std::shared_ptr<const Graph> plain_body;
  std::shared_ptr<const Graph> plain_seed;  // likewise, if weights come in float8: the seed for whole weights
  std::vector<Graph> fragments;
  std::shared_ptr<const KernelSet> kernels;  // null for the reference backend
  CompileOptions options;
  std::vector<FieldType> fields;
  std::vector<SourceLine> terms;  // of the loss: the user's lines
  std::vector<IdBound> ids;       // bounds of the whole numbers in its fields
  int64_t micro_batches = 1;      // per step, over all ranks
  int64_t lanes = 1;
  LaneOrder order = LaneOrder::contiguous;
  std::map<std::string, Layout> layouts;  // of the state that the step reads, on all mesh dims
  // Per host scalar, the tensors of the state that the step computes from it.
  std::map<std::string, std::vector<std::string>> of_scalars;
  std::set<std::string> on_host;  // the part of it in host memory
  int64_t body_within = 0;        // bytes to which copies to the host reduce the body's arenas; 0: no copies
};

GatherOptions gather_options(const CompileOptions& options);  // for the gathers of weights in bodies

// Bytes from a batch field of one micro-batch of a rank to that of the next: a multiple of the memory
// alignment of devices.
inline int64_t slot_stride(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The values that decide whether a step's updates are made: the norms of gradients, and last the step's loss.
std::vector<ValueId> update_gates(const Graph& whole);

// Shapes of the gradients of each bucket.
std::vector<std::vector<Shape>> bucket_shapes(const StepPlan& plan);
// Of each bucket's gradients, as the body writes them.
std::vector<DType> bucket_dtypes(const StepPlan& plan);

}  // namespace lockstep::compiler
