// Appends nodes to the graph that is being traced, by the name of their op.
#pragma once

#include "core/ops/tensor.h"

namespace lockstep {

// Appends one node of the op table: infers the output types (UserError naming op, line and both shapes when
// they do not fit). `builder` is needed when there are no inputs. All inputs belong to one builder; under its
// policy they are converted first (core/ops/precision.h).
std::vector<Tensor> apply(OpId op, const std::vector<Tensor>& inputs, const Attrs& attrs = {},
                          Here at = Here::current(), std::shared_ptr<Builder> builder = nullptr);
// The same for ops with one output, and with the source line of another node (autodiff, expansions).
Tensor apply1(OpId op, const std::vector<Tensor>& inputs, const Attrs& attrs = {}, Here at = Here::current(),
              std::shared_ptr<Builder> builder = nullptr);
std::vector<Tensor> apply_at(OpId op, const std::vector<Tensor>& inputs, const Attrs& attrs,
                             const SourceLine& at, std::shared_ptr<Builder> builder = nullptr);
// Repeats a node on other inputs, with its op, attributes, body and line; types are inferred again.
std::vector<Tensor> apply_again(const Node& node, const std::vector<Tensor>& inputs,
                                std::shared_ptr<Builder> builder = nullptr);

}  // namespace lockstep
