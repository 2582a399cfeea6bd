// CallerLine: the line of a program in another language, which calls C++.
#pragma once

#include "core/ir/graph.h"

namespace lockstep {

// While it lives, what is called on this thread takes this file and line for the user's, whatever Here it is
// given: nodes, specs and messages. The innermost one counts.
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
