// The words that other frameworks use for what Lockstep calls otherwise: what a user types first, and what it
// is here.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::launcher {

// What a key or flag of another framework is called here, as advice: "batch.global is samples per step,
// ...". Case, dashes and underscores do not matter; of a dotted path the last part is looked up. "" for a
// word that is not in the table.
std::string neighbour(std::string_view word);
// What the value of a key is called here ("gpu" is cuda, "adam" is adamw); "" for a word that is not in the
// table.
std::string neighbour_value(std::string_view word);

}  // namespace lockstep::launcher
