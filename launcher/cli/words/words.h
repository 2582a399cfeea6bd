// Project terms that `trainrun explain` explains: those of ARCHITECTURE.md's glossary, and those in messages.
#pragma once

#include <span>

namespace lockstep::launcher::cli {

struct HouseWord {
  const char *names, *text;  // names: with " | " between
};
std::span<const HouseWord> house_words();

}  // namespace lockstep::launcher::cli
