// Two tapes of one step, side by side.
#pragma once

#include <string>
#include <vector>

#include "compiler/step_tape.h"

namespace lockstep::launcher::cli {

struct TapeDifference {
  enum class Kind {
    none,
    batch,  // a field of the batch has other elements
    graph,  // another op, another attribute, another shape; or one of them ends here
    value,  // the same op gives other elements, of equal ones
  };
  Kind kind = Kind::none;
  compiler::TapedValue a, b;  // of a tape that ended: nothing in `words`
  int64_t compared = 0;       // values that were the same before it
};
TapeDifference first_difference(const std::vector<compiler::TapedValue>& a,
                                const std::vector<compiler::TapedValue>& b);

// "[0,3]: 17 and 18 (5 of 64 elements)": the first element in which the bytes of a value differ.
std::string element_words(const compiler::TapedValue& value, const std::vector<std::byte>& a,
                          const std::vector<std::byte>& b);

}  // namespace lockstep::launcher::cli
