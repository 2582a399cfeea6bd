// trainrun show: the resolved config, or the reference of its keys.
#include <ostream>

#include "core/base/error.h"
#include "launcher/cli/commands.h"

namespace lockstep::cli {

int show(const RunConfig& config, std::ostream& out) {
  out << config_text(config);
  return kExitOk;
}

int show_reference(std::ostream& out) {
  out << config_reference();
  return kExitOk;
}

}  // namespace lockstep::cli
