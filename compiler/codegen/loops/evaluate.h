// Symbolic evaluation of a body's values at an index. The results are items of a plan.
#pragma once

#include <map>
#include <stdexcept>
#include <vector>

#include "compiler/codegen/loops/plan.h"

namespace lockstep::compiler::codegen {

// Thrown for a body that does not fit its space; becomes PlanResult::reason.
struct NoPlan : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Appends items to one list; equal values at equal indices share one item.
class Evaluator {
 public:
  // The main loops may read row reductions; the end (`at_end`) may read column reductions.
  Evaluator(const Graph& body, Plan& plan, Indexer& indexer, std::vector<Item>& items, bool at_end);
  int at(ValueId value, const Index& index);  // id of the item; throws NoPlan
  void set_reduction(ValueId value, int reduction) { reductions_[value] = reduction; }

 private:
  int view(const Node& node, const Index& index);
  int concat(const Node& node, const Index& index);
  int pad(const Node& node, const Index& index);
  int take(const Node& node, const Index& index);
  int creation(const Node& node, const Index& index);
  int pointwise(const Node& node, ValueId value, const Index& index);
  int random(const Node& node, ValueId value, const Index& index);
  int reduced(ValueId value, const Index& index);
  int constant(DType dtype, const Number& value);
  int select(DType dtype, std::vector<Guard> guards, int inside, int outside);
  int append(Item item);

  const Graph& body_;
  Plan& plan_;
  Indexer& indexer_;
  std::vector<Item>& items_;
  bool at_end_;
  std::map<ValueId, int> inputs_, reductions_;
  std::map<std::pair<ValueId, Index>, int> known_;
  std::map<std::pair<int, int64_t>, int> numbers_;
};

}  // namespace lockstep::compiler::codegen
