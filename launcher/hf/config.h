// Converts between Hugging Face's config.json and our model options, in both directions by the family's
// table.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "launcher/hf/family.h"

namespace lockstep::launcher::hf {

// The contents of a config.json.
struct HfModel {
  const HfFamily* family = nullptr;
  Json options;                      // options of model.kind, by name
  std::vector<std::string> classes;  // class names in order; empty: none, or only numbers
  std::vector<std::string> told;     // differences in training, one line each
};
// UserError listing every missing key, key without a rule, and unsupported value. `accept`: keys without a
// rule that are declared harmless. `where` names the file. `kind`: model.kind if a type has several; "": from
// the config's architectures.
HfModel model_of(const Json& config, const std::string& where, const std::vector<std::string>& accept = {},
                 const std::string& kind = "");

// Options that make a different function of the same weights, "rms_norm_eps is 1e-06 in ... and model.eps is
// 1e-05", one line each. `options`: ours, with every option (complete).
std::vector<std::string> differences(const HfModel& theirs, const Json& options, const std::string& where);

// Our options completed with defaults, and with the chosen sizes instead of zeros. `hidden`: the rows of the
// family's `hidden` tensor.
Json complete(const HfFamily& family, const Json& options, int64_t hidden);

// The config.json of a model with these options (complete). `carried`: the config.json of the imported model,
// whose other keys are kept; null for none. `dtype` in transformers' spelling: "float32". `classes`: the
// names of all classes; empty: those of `carried`, or numbers.
Json config_of(const HfFamily& family, const Json& options, const Json& carried, const std::string& dtype,
               const std::vector<std::string>& classes = {});

}  // namespace lockstep::launcher::hf
