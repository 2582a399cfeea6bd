// ValuesAway: where values that wait in the host's memory are, in a walk over a program.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace lockstep::compiler {

// Each value of ProgramBlock::away of the body leaves behind the call that used it last, is gone before a
// call that may take its place, comes once its new place is free, and is back before the call that reads it;
// once in each micro-batch. What is wrong comes back in words, "" where nothing is.
class ValuesAway {
 public:
  explicit ValuesAway(const StepProgram& program) : program_(program) {}
  // The arena that the copies are from or to; -1: they are of moments.
  int arena_of(const StartCopies& start) const;
  // A copy starts where the body has run up to call `reached` in the arena that it leaves or comes to.
  std::string start(const StartCopies& start, int reached);
  void end(int flight);  // its wait
  std::string run(const RunBlock& run);

 private:
  enum class At { arena, leaving, host, coming, again };
  struct Value {
    At at = At::arena;
    int flight = -1;
    Span host;
  };
  const std::vector<AwayValue>& all() const { return program_.blocks[kBodyBlock].away; }
  std::vector<Value>& of(int arena);

  const StepProgram& program_;
  std::map<int, std::vector<Value>> values_;  // by the arena's region, as ProgramBlock::away
};

}  // namespace lockstep::compiler
