// trainrun doctor: prints a line per finding, with the remedy below it.
#include "launcher/cli/doctor/doctor.h"

#include <cstdio>
#include <filesystem>
#include <ostream>

#include "core/base/error.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/watch_commands.h"
#include "launcher/version.h"

namespace lockstep::launcher::cli {

namespace {
const char* word(Health health) {
  return health == Health::ok ? "ok  " : health == Health::warn ? "warn" : "FAIL";
}
}  // namespace

std::string decimals(double value, int digits) {
  char out[64];
  std::snprintf(out, sizeof out, "%.*f", digits, value);
  return out;
}

int doctor(std::ostream& out) {
  int warnings = 0, failures = 0;
  auto tell = [&](const Findings& findings) {
    for (const Finding& one : findings) {
      out << word(one.health) << "  " << one.what
          << std::string(one.what.size() < 18 ? 18 - one.what.size() : 1, ' ') << one.value;
      if (one.health != Health::ok) out << "; " << one.mend;
      out << "\n" << std::flush;
      warnings += one.health == Health::warn, failures += one.health == Health::fail;
    }
  };
  out << "lockstep " << kVersion << "\n";
  tell(host_findings());
  tell(disk_findings());
  tell(link_findings(std::filesystem::read_symlink("/proc/self/exe")));
  tell(gpu_findings());
  out << (failures ? str(failures, failures == 1 ? " check fails" : " checks fail") : "no check fails")
      << (warnings ? str(", ", warnings, warnings == 1 ? " warns" : " warn") : "") << "\n";
  return failures ? kExitDiffers : kExitOk;
}

}  // namespace lockstep::launcher::cli
