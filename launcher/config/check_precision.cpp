// Checks of train.precision against the device, the mesh and the keys of float8.
#include "launcher/config/check_precision.h"

#include "core/base/error.h"
#include "launcher/config/config.h"

namespace lockstep::launcher {

std::string precision_error(const std::string& precision, const std::string& device) {
  if (precision != "tf32" || device != "cpu") return "";
  return "train.precision is \"tf32\", which the CPU does not have; choose fp32, which is more exact, or "
         "bf16, or run on a CUDA device";
}

void check_precision(const RunConfig& c, std::vector<std::string>& errors) {
  if (auto wrong = precision_error(c.train.precision, c.train.device); !wrong.empty())
    errors.push_back(wrong);
  if (c.train.precision != "float8") {
    for (const char* path : {"train.float8.gradients", "train.float8.recipe", "train.float8.history",
                             "train.float8.skip", "train.float8.head"})
      if (const ConfigKey* row = find_key(path); get_key(c, *row) != row->fallback)
        errors.push_back(str(path, " is ", get_key(c, *row).dump(), ", but train.precision is \"",
                             c.train.precision, "\"; leave it out, or choose train.precision=float8"));
    return;
  }
  if (const ConfigKey* row = find_key("train.float8.history");
      c.train.float8.recipe != "delayed" && get_key(c, *row) != row->fallback)
    errors.push_back(str("train.float8.history is ", c.train.float8.history,
                         ", but train.float8.recipe is \"", c.train.float8.recipe,
                         "\", whose scales have no history; leave it out, or choose "
                         "train.float8.recipe=delayed"));
  for (size_t i = 0; i < std::min(c.mesh.dim_names.size(), c.mesh.shape.size()); ++i)
    if (c.mesh.dim_names[i] == "tp" && c.mesh.shape[i] != 1)
      errors.push_back(
          str("train.precision is \"float8\" and mesh.shape gives tp ", c.mesh.shape[i],
              ": a weight that tp splits has no scale yet; give these ranks to dp_shard, or choose "
              "train.precision=bf16"));
}

}  // namespace lockstep::launcher
