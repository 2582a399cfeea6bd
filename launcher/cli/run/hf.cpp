// trainrun import-hf and export-hf: convert models from and to Hugging Face's format.
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "launcher/cli/commands.h"

namespace lockstep::launcher::cli {

int import_hf(const hf::ImportRequest& request, std::ostream& out) {
  hf::import_run(request, out);
  return kExitOk;
}

int export_hf(hf::ExportRequest request, const std::string& max_shard, std::ostream& out) {
  if (!max_shard.empty()) {
    const auto bytes = parse_bytes(max_shard);
    if (!bytes)
      throw UserError(
          str("--max-shard is \"", max_shard, "\"; give bytes, or a number with a unit, as in 5GB"));
    request.max_shard = *bytes;
  }
  hf::export_run(request, out);
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
