// Gaps: ranges of calls in which a block's buffers are neither read nor written.
#pragma once

#include <vector>

#include "compiler/program/blocks/block.h"
#include "compiler/program/blocks/places.h"

namespace lockstep::compiler {

// Calls [from, to) do not touch a buffer; call `to` reads it.
struct BufferGap {
  ValueId buffer;
  NodeId node;  // that made what waits
  int from = 0, to = 0;
};
// For each buffer without an input or output of the graph: its longest gap, after the last write of the value
// that is read at its end. `home`: per root (places.h), the owner of its buffer. `seconds`: of each call. A
// collective uses its buffers from its start to its wait.
std::vector<BufferGap> gaps_of(const ProgramBlock& block, const PerValue<Place>& places,
                               const PerValue<ValueId>& home, const std::vector<double>& seconds);

}  // namespace lockstep::compiler
