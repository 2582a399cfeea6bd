// The launcher's flags and the config's keys share one command line, so no name may be both.
#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/cli/commands.h"

namespace lockstep {
namespace {

TEST(Flags, NoneIsAConfigKeyOrSection) {
  auto flags = launcher::cli::launcher_flags();
  EXPECT_NE(std::find(flags.begin(), flags.end(), "nproc"), flags.end());
  for (auto flag : flags) {
    std::replace(flag.begin(), flag.end(), '-', '_');
    for (const auto& key : launcher::config_keys()) {
      EXPECT_NE(key.path, flag);
      EXPECT_NE(key.path.substr(0, key.path.find('.')), flag);
    }
    EXPECT_NE(flag, "init_from");
  }
}

}  // namespace
}  // namespace lockstep
