// Fuzz target: a worker's flight record, as the supervisor reads it: the log, its table, and who is late.
// Zeros follow the bytes given.
#include "distributed/watch/flight_file.h"
#include "distributed/watch/late.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::fuzz {

using namespace distributed;

void flight_record(std::string_view bytes) {
  static const ScratchFolder folder;
  std::string file(bytes);
  if (file.size() < sizeof(FlightFile)) file.resize(sizeof(FlightFile));
  const std::string path = folder.write("progress-0", file);
  answers([&] { read_progress(path); });
  FlightLog log;
  if (!answers([&] { log = read_flight_log(path); })) return;
  FUZZ_CHECK(log.entries.size() <= kFlightSlots, log.entries.size());
  FUZZ_CHECK(!text(log).empty());
  for (const auto& report : find_late({log, log}, 0.1)) FUZZ_CHECK(!text(report).empty());
}

}  // namespace lockstep::fuzz
