// Maps names of other frameworks, which users may type first, to Lockstep's names.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::launcher {

// Advice on the name here of another framework's key or flag: "batch.global is samples per step,
// ...". Case, dashes and underscores are ignored; only the last part of a dotted path is looked up. "" for a
// word that is not in the table.
std::string neighbour(std::string_view word);
// The name here of a key's value ("gpu" is cuda, "adam" is adamw); "" for a word that is not in the table.
std::string neighbour_value(std::string_view word);

}  // namespace lockstep::launcher
