// The supervisor alone, without the command line: fake_trainrun RUN_DIR NPROC MAX_RESTARTS MIN_NPROC GRACE
// PROGRAM ARGS...; FAKE_GROW_AFTER, FAKE_TIMEOUT: seconds.
#include <cstdio>
#include <cstdlib>

#include "core/base/error.h"
#include "launcher/supervise/supervisor.h"

int main(int argc, char** argv) {
  if (argc < 7) return 64;
  lockstep::launcher::LaunchOptions options;
  options.nproc = std::atoll(argv[2]);
  options.max_restarts = std::atoll(argv[3]);
  options.min_nproc = std::atoll(argv[4]);
  options.grace = std::atof(argv[5]);
  options.restart_delay = 0.05;
  options.heeds_stop = std::getenv("FAKE_HEEDS_STOP") != nullptr;
  if (const char* seconds = std::getenv("FAKE_GROW_AFTER")) options.grow_after = std::atof(seconds);
  if (const char* seconds = std::getenv("FAKE_TIMEOUT")) options.timeout = std::atof(seconds);
  options.worker.assign(argv + 6, argv + argc);
  try {
    lockstep::launcher::RunFolder folder(argv[1]);
    return lockstep::launcher::supervise(options, folder);
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.kind(), error.what());
    return error.exit_code();
  }
}
