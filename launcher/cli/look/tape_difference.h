// Compares two tapes of a step. A tape records every value that a step computes.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile/step_tape.h"

namespace lockstep::launcher::cli {

struct TapeDifference {
  enum class Kind {
    none,
    batch,  // a field of the batch has other elements
    graph,  // the op, an attribute or the shape differs, or one tape ends here
    value,  // the same op gives different elements from equal inputs
  };
  Kind kind = Kind::none;
  compiler::TapedValue a, b;  // for a tape that ended, `words` is empty
  int64_t compared = 0;       // equal values before it
};
TapeDifference first_difference(const std::vector<compiler::TapedValue>& a,
                                const std::vector<compiler::TapedValue>& b);

// "[0,3]: 17 and 18 (5 of 64 elements)": the first element in which the bytes of a value differ.
std::string element_words(const compiler::TapedValue& value, const std::vector<std::byte>& a,
                          const std::vector<std::byte>& b);

}  // namespace lockstep::launcher::cli
