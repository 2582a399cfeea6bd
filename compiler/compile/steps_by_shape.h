// StepsByShape: one step function for batches of several shapes, such as a smaller last batch, or sequences
// of other lengths. Each shape is a step of its own, compiled when it is first requested.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "compiler/compile/compile.h"
#include "compiler/compile/counted_scalars.h"

namespace lockstep::compiler {

inline constexpr size_t kMostShapes = 8;  // default number of shapes

class StepsByShape {
 public:
  // Compiles the step of the first shape, as compile() does. If shape.micro is 0 (and so is the first dim of
  // the fields), each shape uses its default_micro_batch (compiler/compile/micro_batch.h). `most`: the most shapes
  // that may be requested, at least 1. The state must outlive it.
  StepsByShape(State& state, std::vector<BatchField> batch, const BatchShape& shape, StepFunction function,
               CompileOptions options, size_t most = kMostShapes, Here at = Here::current());
  ~StepsByShape();
  StepsByShape(const StepsByShape&) = delete;
  StepsByShape& operator=(const StepsByShape&) = delete;

  // The step for `global` samples. `samples`: their shapes, field by field, with as many dims as in the first
  // shape. All steps work on the one state, each with the bits of a step compiled only for its shape. They
  // run in turns; the later ones use the memory of the first as far as there is room.
  // Micro-batches have the first shape's size, or the largest smaller size that divides `global`. Lanes are
  // as given if they divide the micro-batches. Products on tp have as many of the given pieces
  // (CompileOptions::tp_pieces) as divide the micro-batch. Compiling a new shape is collective: all ranks
  // must request the same. UserError if it has no samples, another number of fields or dims, or exceeds
  // `most` shapes; and the errors of compile().
  // A step must be compiled again if its scalars count updates and its tensors now have different counts
  // (CountedScalars). All other steps are then compiled again, too. None of them can run again, so they are
  // released first: if compile() then throws, size() is 0, and the next call compiles again.
  Step& at(int64_t global, const std::vector<Shape>& samples, Here at = Here::current());
  Step& first();  // of the first shape; compiles it if there is none
  size_t size() const { return steps_.size(); }

 private:
  using Key = std::pair<int64_t, std::vector<Shape>>;
  std::vector<BatchField> fields_of(const Key& key, int64_t micro) const;
  int64_t micro_batch_of(const Key& key) const;
  std::string words(const Key& key) const;                 // "ids i32[8,16], mask f32[8,16]"
  int64_t pieces_of(const Key& key, int64_t micro) const;  // CompileOptions::tp_pieces
  Step& compiled(const Key& key);
  Step& compile_first();

  State& state_;
  std::vector<BatchField> batch_;
  BatchShape shape_;
  StepFunction function_;
  CompileOptions options_;
  size_t most_;
  bool by_default_ = false;
  Key first_;
  struct Compiled {
    Step step;
    CountedScalars counted;
  };
  void add(const Key& key, Step step);
  void drop();
  std::map<Key, Compiled> steps_;
};

}  // namespace lockstep::compiler
