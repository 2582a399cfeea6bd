// CallerLine: the source line of a program in another language that calls C++.
#pragma once

#include "core/ir/graph.h"

namespace lockstep {

// While an object lives, nodes, specs and messages of calls on this thread have this file and line, not those
// of their Here. The innermost object counts.
class CallerLine {
 public:
  explicit CallerLine(SourceLine line);
  ~CallerLine();
  CallerLine(const CallerLine&) = delete;

 private:
  SourceLine line_;
  const SourceLine* before_;
};

}  // namespace lockstep
