// What of a traced step follows from the number of its samples: the same step, traced on another number of
// them, tells.
#pragma once

#include <optional>

#include "core/ir/graph.h"

namespace lockstep::compiler {

class BatchGrowth {
 public:
  // Both traced from one function, of batch inputs whose dim 0 has another size in each.
  BatchGrowth(const Graph& some, const Graph& whole);

  // The first node of `some` at which the function wrote another program.
  std::optional<NodeId> parting() const { return parting_; }
  int64_t samples() const { return samples_; }                           // of `some`
  double parts() const { return static_cast<double>(all_) / samples_; }  // as large as some, of the whole

  // Dims of a value whose size follows from the number of samples.
  enum class Dims { none, one, other };  // other: several, or one that is no multiple of the samples
  Dims dims(ValueId v, size_t* dim = nullptr) const;
  // An attribute's number, over that on the whole batch: 1 where it is the same. None where one alone is 0,
  // or has the other sign.
  std::optional<double> ratio(NodeId n, std::string_view attribute) const;
  bool same_attributes(NodeId n) const { return some_.node(n).attrs == whole_.node(n).attrs; }

 private:
  const Graph& some_;
  const Graph& whole_;
  int64_t samples_ = 0, all_ = 0;
  std::optional<NodeId> parting_;
};

}  // namespace lockstep::compiler
