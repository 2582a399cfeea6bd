// Tensor: a handle into the graph that is being traced. It has a type but no values.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <set>
#include <source_location>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/ops/id_read.h"

namespace lockstep {

// The graph under construction, and the layer (FQN) that is being traced, for messages.
struct Builder {
  Graph graph;
  std::string scope;
  std::optional<DType> precision = {};  // what contractions compute in: core/ops/precision.h; none: strict
  std::string loss_scale = {};  // the state tensor that gradients of parameters are scaled by; "": none
  int64_t micro_batches = 0;    // of a step, over all ranks; 0: the graph is not a step
  // State inputs of which a step reads and replaces only some rows (Spec::sparse)
  std::set<ValueId> sparse = {};
  std::vector<IdRead> id_reads = {};  // reads that no single op represents: functions::reads_by_ids()
  // State input of this name, added on first use.
  ValueId state_input(const std::string& fqn, DType dtype, const Shape& shape);
  // Scalar input of this name (rank 0), added on first use.
  ValueId scalar_input(const std::string& name, DType dtype);
};

class Tensor {
 public:
  Tensor() = default;  // no tensor: "no gradient", "no bias"
  Tensor(std::shared_ptr<Builder> builder, ValueId id) : builder_(std::move(builder)), id_(id) {}
  bool defined() const { return builder_ != nullptr; }
  // Its elements are not known while a step is traced, so it does not convert to bool: choose between values
  // with where().
  ValueId id() const { return id_; }
  Shape shape() const { return builder_->graph[id_].shape; }  // a copy: the graph grows while it is traced
  int64_t size(int dim) const;                                // negative dims count from the end
  int ndim() const { return static_cast<int>(shape().size()); }
  DType dtype() const { return builder_->graph[id_].dtype; }
  const std::shared_ptr<Builder>& builder() const { return builder_; }
  std::string text() const { return shape_text(dtype(), shape()); }

 private:
  std::shared_ptr<Builder> builder_;
  ValueId id_;
};

using Here = std::source_location;

// While an object lives, nodes appended through apply() on this thread take this source line; vjp and expand
// run under one.
class AtLine {
 public:
  explicit AtLine(const SourceLine& at);
  ~AtLine();
  AtLine(const AtLine&) = delete;

 private:
  const SourceLine* before_;
};

// A line of the user's program, for messages: `at`, or the line of a living CallerLine (caller_line.h).
SourceLine line_of(Here at, std::string scope = {});
// The source line of a node of `builder` that is made at `at`: that of a living AtLine, else line_of with the
// builder's scope.
SourceLine source_line(const Builder& builder, Here at);

// A Tensor with the line where it is written: the first argument of operators, so that their nodes and
// messages name the user's line.
struct TensorAt {
  template <class T>
    requires std::convertible_to<const T&, Tensor>
  TensorAt(const T& value, Here line = Here::current())
      : tensor(value), at(line) {}  // implicit: made at the call
  Tensor tensor;
  Here at;
};

}  // namespace lockstep
