// Tensor handles, and the inputs of the graph that is being traced.
#include "core/ops/tensor.h"

#include "core/base/error.h"
#include "core/ops/caller_line.h"

namespace lockstep {

namespace {
thread_local const SourceLine* living_line = nullptr;
thread_local const SourceLine* calling_line = nullptr;
}  // namespace

ValueId Builder::state_input(const std::string& fqn, DType dtype, const Shape& shape) {
  ValueId id = graph.find_input(fqn);
  if (id == kNoValue) return graph.add_input(InputKind::state, fqn, dtype, shape);
  if (graph[id].dtype != dtype || graph[id].shape != shape)
    throw UserError(str("state \"", fqn, "\" is used as ", shape_text(dtype, shape), " and as ",
                        shape_text(graph[id].dtype, graph[id].shape), "; give one of them another name"));
  return id;
}

ValueId Builder::scalar_input(const std::string& name, DType dtype) {
  ValueId id = graph.find_input(name);
  if (id == kNoValue) return graph.add_input(InputKind::scalar, name, dtype, {});
  if (graph[id].dtype != dtype || !graph[id].shape.empty())
    throw UserError(str("the scalar \"", name, "\" is used as ", lockstep::name(dtype), "[] and as ",
                        shape_text(graph[id].dtype, graph[id].shape),
                        "; read it with one dtype, and convert what it gives"));
  return id;
}

int64_t Tensor::size(int dim) const {
  int rank = ndim();
  if (dim < -rank || dim >= rank)
    throw UserError(str("size(", dim, ") of ", text(), ": dims are ", -rank, " .. ", rank - 1));
  return shape()[dim < 0 ? dim + rank : dim];
}

AtLine::AtLine(const SourceLine& at) : before_(living_line) { living_line = &at; }
AtLine::~AtLine() { living_line = before_; }

CallerLine::CallerLine(SourceLine line) : line_(std::move(line)), before_(calling_line) {
  calling_line = &line_;
}
CallerLine::~CallerLine() { calling_line = before_; }

SourceLine line_of(Here at, std::string scope) {
  if (calling_line) return {calling_line->file, calling_line->line, std::move(scope)};
  return {at.file_name(), static_cast<int>(at.line()), std::move(scope)};
}
SourceLine source_line(const Builder& builder, Here at) {
  return living_line ? *living_line : line_of(at, builder.scope);
}

}  // namespace lockstep
