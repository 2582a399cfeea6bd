// A line for each family: its row, which its file defines.
#pragma once

#include "core/models/family.h"

namespace lockstep::models {

const Family& gpt();
const Family& llama();

}  // namespace lockstep::models
