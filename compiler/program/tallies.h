// Tallies: the totals that counts of micro-batches are added to.
#pragma once

#include <map>
#include <set>

#include "compiler/program/span.h"

namespace lockstep::compiler {

class Tallies {
 public:
  // Whether an addition takes its count: to each of several totals a count is added once, and the first takes
  // it.
  bool takes(const Span& count, const Span& total) {
    std::set<Span>& totals = of_[count];
    const bool first = totals.empty();
    return !totals.insert(total).second || first;
  }
  void clear() { of_.clear(); }  // counts anew

 private:
  std::map<Span, std::set<Span>> of_;  // by count
};

}  // namespace lockstep::compiler
