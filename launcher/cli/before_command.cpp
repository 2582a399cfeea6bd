// Prepares each command according to its needs.
#include "launcher/cli/before_command.h"

#include "launcher/api/environment.h"
#include "launcher/supervise/worker/signals_apart.h"

namespace lockstep::launcher::cli {

void before_command(const std::string& command) {
  for (const char* computes : {"run", "plan", "replay", "generate"})
    if (command == computes) check_environment();
  for (const char* makes : {"ckpt", "import-hf", "export-hf", "report", "show", "doctor"})
    if (command == makes) undo_on_signals();
}

}  // namespace lockstep::launcher::cli
