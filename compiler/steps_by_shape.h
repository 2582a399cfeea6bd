// StepsByShape: one step function for batches of several shapes, as a loop meets them: a last batch that is
// smaller, sequences of other lengths. Each shape is a step of its own, compiled when it is first asked for.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "compiler/counted_scalars.h"

namespace lockstep::compiler {

inline constexpr size_t kMostShapes = 8;  // that are kept, where nobody says another number

class StepsByShape {
 public:
  // Compiles the step of the first shape, as compile() does; where shape.micro is 0, and so the first dim of
  // the fields, of each shape in its default_micro_batch (compiler/micro_batch.h). `most`: shapes that may be
  // asked for, at least 1. The state must outlive it.
  StepsByShape(State& state, std::vector<BatchField> batch, const BatchShape& shape, StepFunction function,
               CompileOptions options, size_t most = kMostShapes, Here at = Here::current());
  ~StepsByShape();
  StepsByShape(const StepsByShape&) = delete;
  StepsByShape& operator=(const StepsByShape&) = delete;

  // The step for `global` samples; `samples`: their shapes, field by field, with as many dims as in the first
  // shape. All steps work on the one state, each with the bits of a step that is compiled for its shape
  // alone; they run in turns, and the others lie in the memory of the first where it has room. Micro-batches
  // are of the first shape's size, or the largest size below it that divides `global`; lanes as given where
  // they divide the micro-batches, and products on tp in as many of the given pieces
  // (CompileOptions::tp_pieces) as divide the micro-batch. A shape that is new is compiled, which is
  // collective: all ranks ask for the same. UserError where it has no samples, another number of fields or
  // dims, or is one shape more than `most`; and what compile() throws.
  // A step whose scalars count updates that its tensors have in different numbers by now (CountedScalars), is
  // compiled anew, with all others. None of them can run again, so that they are let go before: where that
  // compile() throws, size() is 0, and the next call compiles again.
  Step& at(int64_t global, const std::vector<Shape>& samples, Here at = Here::current());
  Step& first();  // of the first shape; compiled where there is none
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
