// Checks the keys that depend on the best validation.
#include "launcher/config/check_best.h"

#include "core/base/error.h"
#include "launcher/config/config.h"

namespace lockstep::launcher {

void check_best(const RunConfig& c, std::vector<std::string>& errors) {
  if (c.train.patience == 0 && c.train.min_delta != 0)
    errors.push_back(
        str("train.min_delta is ", number_text(c.train.min_delta),
            ", but it belongs to train.patience, which is not set: the best checkpoint is of the "
            "best value, by however little; leave it out, or set train.patience"));
  if (c.train.patience == 0 && !c.checkpoint.best) {
    for (const char* path : {"train.monitor", "train.monitor_mode"})
      if (const ConfigKey* row = find_key(path); get_key(c, *row) != row->fallback)
        errors.push_back(str(path, " is ", get_key(c, *row).dump(),
                             ", but it belongs to train.patience and checkpoint.best, and neither is set; "
                             "leave it out, or set one of them"));
    return;
  }
  const std::string asked = c.checkpoint.best ? std::string("checkpoint.best is true")
                                              : str("train.patience is ", c.train.patience);
  if (c.data.validation == 0)
    errors.push_back(str(asked,
                         ", which goes by validations, and data.validation is 0; keep a part of the data for "
                         "them, as in data.validation 0.1"));
  else if (c.train.patience > 0 && c.train.eval_every == 0)
    errors.push_back(str("train.patience is ", c.train.patience,
                         ", which counts validations, and train.eval_every is 0: there is one at the end "
                         "alone; set train.eval_every"));
}

}  // namespace lockstep::launcher
