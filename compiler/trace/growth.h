// Finds which parts of a traced step depend on the number of its samples, from a trace of the same step on
// another number.
#pragma once

#include <optional>

#include "core/ir/graph.h"

namespace lockstep::compiler {

class BatchGrowth {
 public:
  // Both are traces of one function, whose batch inputs have different sizes of dim 0.
  BatchGrowth(const Graph& some, const Graph& whole);

  // The first node of `some` where the function wrote a different program.
  std::optional<NodeId> parting() const { return parting_; }
  int64_t samples() const { return samples_; }                           // of `some`
  double parts() const { return static_cast<double>(all_) / samples_; }  // how many times `some` the whole is

  // Dims of a value whose size depends on the number of samples.
  enum class Dims { none, one, other };  // other: several, or one that is no multiple of the samples
  Dims dims(ValueId v, size_t* dim = nullptr) const;
  // An attribute's number divided by that on the whole batch; 1 if they are equal. None if only one is 0, or
  // if the signs differ.
  std::optional<double> ratio(NodeId n, std::string_view attribute) const;
  bool same_attributes(NodeId n) const { return some_.node(n).attrs == whole_.node(n).attrs; }

 private:
  const Graph& some_;
  const Graph& whole_;
  int64_t samples_ = 0, all_ = 0;
  std::optional<NodeId> parting_;
};

}  // namespace lockstep::compiler
