// The words of the house, as `trainrun explain` tells them: those of ARCHITECTURE.md's glossary, and those
// that messages use.
#pragma once

#include <span>

namespace lockstep::launcher::cli {

struct HouseWord {
  const char *names, *text;  // names: with " | " between
};
std::span<const HouseWord> house_words();

}  // namespace lockstep::launcher::cli
