// A step program as text for people: memory, blocks, and the instructions in order.
#pragma once

#include <string>
#include <vector>

#include "compiler/program/words/program.h"

namespace lockstep::compiler {

std::string_view kind_of(const Instr& instr);                  // "run", "start", "wait", "accumulate", ...
std::string label_of(const StepProgram& program, int flight);  // of its start; "?" if nothing starts it
std::vector<std::string> flight_labels(const StepProgram& program);  // label_of each flight
// A line per instruction, without its micro-batch: "start all_to_all "exchange 0" along data, ...".
std::string text(const StepProgram& program, const Instr& instr);
// The whole program. Calls of similar layers, and micro-batches that do the same, are written once.
std::string print(const StepProgram& program);

}  // namespace lockstep::compiler
