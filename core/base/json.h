// JSON as the project uses it: keys keep their order, so that files can be written back in the order they
// had.
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep {
using Json = nlohmann::ordered_json;
}
