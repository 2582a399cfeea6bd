// A step program as text that parses back, with every number; print.h writes text for people.
//
//   program rank 0 mesh "dp_replicate=2" micro_batches 8 lanes 8 flights 3 ...
//   region state "token.weight" bytes 131072
//   block groups [...] outputs [own+4096 ...] ...
//   call kernel "k_1f0c..." args [0+0 own+256] inputs 1 node 4 ...
//   graph [] { ... }
//   refresh
//   step
//   run 2 from 0 to 31 inputs [...] own 1+0:65536 shared - | micro_batch 0 stage 0
//   start all_to_all "exchange 0" along "data" of f32 sends [16 16] ... | micro_batch -1 stage 0 at
//   "gpt.cpp:12" "blocks.0" end
//
// A span is REGION+OFFSET:BYTES, "-" if absent. A place of a block is own, shared or the number of its input,
// +OFFSET.
#pragma once

#include <string>
#include <string_view>

#include "compiler/program/words/program.h"

namespace lockstep::compiler {

std::string listing(const StepProgram& program);
// UserError naming the line if the text is not a program. Library calls come back as names only. So a program
// that was read can be checked, summed and drawn like any other, but must be planned again before it runs.
StepProgram parse_program(std::string_view text);

}  // namespace lockstep::compiler
