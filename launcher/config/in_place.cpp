// The device of ranks that are threads of one process.
#include "core/base/error.h"
#include "launcher/config/config.h"

namespace lockstep::launcher {

std::string in_place_device(const RunConfig& config, int64_t nproc) {
  const std::string& word = config.train.device;
  const std::string kind = device_choice(word).kind;
  if (nproc == 1 || kind == "cpu") return word;
  if (kind == "auto") return "cpu";
  throw UserError(str("--simulate ", nproc, " runs ", nproc,
                      " ranks in one process, and one process drives one device, but train.device is \"",
                      word, "\"; use --train.device=cpu, --simulate 1, or --nproc ", nproc));
}

}  // namespace lockstep::launcher
