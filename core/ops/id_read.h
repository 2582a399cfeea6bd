// What a function reads by whole numbers: rows of a table, classes of logits, places along a dim.
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace lockstep {

// Every element of `ids` lies in [0, count), or is `ignored` where `ignores`.
struct IdRead {
  ValueId ids = {};
  int64_t count = 0;
  std::string of = {};                 // "a row of f32[16,8]"
  const char* wider = "table larger";  // what would hold more
  bool ignores = false;
  int64_t ignored = 0;
  std::string op = {};  // the function that reads them
  SourceLine at = {};   // the user's line
};

}  // namespace lockstep
