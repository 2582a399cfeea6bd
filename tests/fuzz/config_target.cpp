// Fuzz target: a config and its overrides. What is accepted prints, and what is printed reads back as the
// same config.
#include <algorithm>

#include "launcher/config/config.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

using namespace launcher;

void config(std::string_view bytes) {
  auto parts = split(bytes, '\0');
  const std::string text = parts[0];
  parts.erase(parts.begin());
  std::vector<Override> overrides;
  if (!answers([&] { overrides = parse_overrides(parts, {"nproc", "max-restarts", "dry-run"}); }))
    overrides.clear();
  RunConfig config;
  if (!answers([&] { config = parse_config(text, "fuzz.json", overrides); })) return;
  const std::string printed = config_text(config);
  FUZZ_CHECK(config_text(parse_config(printed, "printed.json")) == printed, printed);
  for (int64_t world : {1, 2, 6}) {
    answers([&] { validate(config, world); });
    answers([&] { in_place_device(config, world); });
  }
}

}  // namespace lockstep::fuzz
