// Fuzz target: the logs and the error record of a run that came from elsewhere, parts of it behind NULs.
#include "core/base/text.h"
#include "launcher/cli/look/run_events.h"
#include "launcher/supervise/hosts/mpirun_words.h"
#include "launcher/supervise/worker/contract.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::fuzz {

void run_logs(std::string_view bytes) {
  using namespace launcher;
  static const ScratchFolder folder;
  const auto parts = split(bytes, '\0');
  size_t at = 0;
  for (const char* name : {"rank-0.log", "launcher.log", "error-1.json"})
    folder.write(str("logs/attempt-1/", name), at < parts.size() ? parts[at++] : "");
  answers([&] {
    const auto found = cli::attempts_of(folder.path(""));
    FUZZ_CHECK(found.attempts == 1 && found.from(INT64_MAX) >= 0, found.from(INT64_MAX));
    read_error_records(folder.path("logs/attempt-1"));
  });
  MpirunWords words;
  for (const auto& line : split(bytes, '\n')) words.take(line), words.take_rank_line(line);
  for (const auto& end : words.meaning().ends) FUZZ_CHECK(end.rank >= 0, end.rank);
}

}  // namespace lockstep::fuzz
