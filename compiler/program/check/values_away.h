// ValuesAway: the state of values that wait in host memory (away), in a check that walks over a program.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/program/words/program.h"

namespace lockstep::compiler {

// Each value of the body's ProgramBlock::away goes through four steps, once per micro-batch. It leaves after
// the call that used it last, and is gone before a call that may take its place. It comes when its new place
// is free, and is back before the call that reads it. A function returns a fault in words, or "".
class ValuesAway {
 public:
  explicit ValuesAway(const StepProgram& program) : program_(program) {}
  // The arena that the copies read or write; -1: they copy moments.
  int arena_of(const StartCopies& start) const;
  // A copy starts when the body has run up to call `reached` in its arena.
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
  std::map<int, std::vector<Value>> values_;  // by the arena's region; in the order of ProgramBlock::away
};

}  // namespace lockstep::compiler
