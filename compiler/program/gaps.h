// Gaps: during which calls a block's buffers are neither read nor written.
#pragma once

#include <vector>

#include "compiler/program/block.h"
#include "compiler/program/places.h"

namespace lockstep::compiler {

// Calls [from, to) that do not touch a buffer; call `to` reads it.
struct BufferGap {
  ValueId buffer;
  NodeId node;  // that made what waits
  int from = 0, to = 0;
};
// Of each buffer in which no input and no output of the graph lies: the gap of the longest time, behind the
// last write of what is read at its end. `home`: per root (places.h) whose buffer it lies in; `seconds`: of
// each call. A collective uses its buffers from its start to its wait.
std::vector<BufferGap> gaps_of(const ProgramBlock& block, const PerValue<Place>& places,
                               const PerValue<ValueId>& home, const std::vector<double>& seconds);

}  // namespace lockstep::compiler
