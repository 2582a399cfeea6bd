// IdRead: a read by integer ids: rows of a table, classes of logits, elements along a dim.
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace lockstep {

// Every element of `ids` must be in [0, count), or equal `ignored` if `ignores`.
struct IdRead {
  ValueId ids = {};
  int64_t count = 0;
  std::string of = {};                 // "a row of f32[16,8]"
  const char* wider = "table larger";  // what the user has to enlarge
  bool ignores = false;
  int64_t ignored = 0;
  std::string op = {};  // the function that reads them
  SourceLine at = {};   // the user's line
};

}  // namespace lockstep
