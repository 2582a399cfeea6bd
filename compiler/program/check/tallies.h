// Tallies: the totals to which counts of micro-batches are added.
#pragma once

#include <map>
#include <set>

#include "compiler/program/words/span.h"

namespace lockstep::compiler {

class Tallies {
 public:
  // Whether an addition consumes its count. A count is added once to each of several totals, and the first
  // addition consumes it.
  bool takes(const Span& count, const Span& total) {
    std::set<Span>& totals = of_[count];
    const bool first = totals.empty();
    return !totals.insert(total).second || first;
  }
  void clear() { of_.clear(); }  // starts again with no counts

 private:
  std::map<Span, std::set<Span>> of_;  // by count
};

}  // namespace lockstep::compiler
