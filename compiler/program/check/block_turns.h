// BlockTurns: the progress of block runs (turns), in a check that walks over a program.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/words/program.h"

namespace lockstep::compiler {

// The calls of a block run in order, all of them, once per micro-batch. Those that read gathered weights run
// after the waits for these weights and before the next waits. A function returns a fault in words, or "".
class BlockTurns {
 public:
  explicit BlockTurns(const StepProgram& program) : program_(program) {}
  std::string run(const RunBlock& run, const Instr& instr);
  // A fault if the span has a result of a seed call that has not run yet, whatever older content is there.
  std::string read(const Span& span) const;
  void weights_arrive(int arena) { ++arrived_[arena]; }  // a gather's weights that a block reads
  void begin_anew() { done_.clear(); }                   // each block may run once more
  bool has_micro_batches() const;                        // whether a block has run for one
  // Calls of the body that have run in this arena.
  int reached(int arena) const;
  // A run whose calls from `from` on have not run; null: none.
  const Instr* unfinished(int& from) const;
  std::vector<int> arenas_of(int block) const;  // regions of the runs so far

 private:
  // The progress of a block in one of its arenas.
  struct Turn {
    int reached = 0, micro_batch = -1;
    const Instr* newest = nullptr;
    RunBlock run = {};  // the newest
  };
  int calls_of(int block) const { return static_cast<int>(program_.blocks[block].calls.size()); }
  std::string gathered(const RunBlock& run);

  const StepProgram& program_;
  std::map<std::pair<int, int>, Turn> turns_;  // by block and its own arena
  std::set<std::pair<int, int>> done_;         // block and micro-batch
  std::map<int, size_t> arrived_;              // per arena: weights that a pass over its block gathered
};

}  // namespace lockstep::compiler
