// Checks each variable with its own parser.
#include "launcher/api/environment.h"

#include "checkpoint/storage/s3/settings.h"
#include "compiler/codegen/kernel_library.h"
#include "compiler/pipeline.h"
#include "core/base/bytes.h"
#include "core/base/env.h"
#include "core/base/log.h"
#include "core/mesh/deadline.h"
#include "distributed/checksummed_group.h"
#include "launcher/config/run_names.h"
#include "launcher/memory/host.h"
#include "launcher/supervise/worker/side.h"

namespace lockstep {

void check_environment() {
  (void)env_flag("LOCKSTEP_VERIFY");
  for (const char* limit : {"LOCKSTEP_CACHE_LIMIT", "LOCKSTEP_LOG_LIMIT"}) (void)limit_of_environment(limit);
  launcher::refuse_no_local_path(env("LOCKSTEP_CACHE"), "LOCKSTEP_CACHE");
  (void)logs::enabled("plan");  // reads LOCKSTEP_LOGS
  (void)read_deadlines(env("LOCKSTEP_DEADLINE"));
  (void)distributed::wants_checksums(false);
  (void)checkpoint::s3::patience_of_environment();
  (void)compiler::passes_skipped_by_environment();
  compiler::check_isa_word(env("LOCKSTEP_ISA"));
  if (!env("LOCKSTEP_MEMORY").empty()) (void)launcher::host_memory();
  launcher::check_fault();
}

}  // namespace lockstep
