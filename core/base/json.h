// JSON as the project uses it: keys keep their order, so that files read as they were written.
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep {
using Json = nlohmann::ordered_json;
}
