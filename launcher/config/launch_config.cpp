// Checks a range of ports.
#include "launcher/config/launch_config.h"

#include "core/base/error.h"
#include "core/base/port_range.h"

namespace lockstep::launcher {

void check_launch(const LaunchConfig& launch, std::vector<std::string>& errors) {
  if (!launch.ports.empty() && !parse_port_range(launch.ports))
    errors.push_back(str("launch.ports is \"", shortened(launch.ports, 60),
                         "\"; give FIRST-LAST, of 1024 to 65535, as in 30000-30999"));
}

}  // namespace lockstep::launcher
