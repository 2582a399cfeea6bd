// config.json of Hugging Face and the options of a model of ours, both directions by the table of the family.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "launcher/hf/family.h"

namespace lockstep::launcher::hf {

// What a config.json says.
struct HfModel {
  const HfFamily* family = nullptr;
  Json options;                      // of model.kind, by their names
  std::vector<std::string> classes;  // names of its classes in their order; empty: it has none, or numbers
  std::vector<std::string> told;     // what training does otherwise, one line each
};
// UserError listing every key that is missing, that no rule knows, or whose value the model does not compute.
// `accept`: keys that no rule knows and that change nothing. `where` names the file. `kind`: model.kind,
// where a type has several; "": as the config's architectures say.
HfModel model_of(const Json& config, const std::string& where, const std::vector<std::string>& accept = {},
                 const std::string& kind = "");

// The options that make another function of the same weights, "rms_norm_eps is 1e-06 in ... and model.eps is
// 1e-05", one line each. `options`: ours, with every option (complete).
std::vector<std::string> differences(const HfModel& theirs, const Json& options, const std::string& where);

// Our options with a value for each: defaults, and chosen sizes in the places of zeros. `hidden`: the rows of
// the family's `hidden` tensor.
Json complete(const HfFamily& family, const Json& options, int64_t hidden);

// The config.json of a model with these options (complete). `carried`: that of the model it was imported
// from, whose other keys are kept; null for none. `dtype` is transformers' word: "float32". `classes`: names
// of the classes, as many as the model has; empty: those of `carried`, or numbers.
Json config_of(const HfFamily& family, const Json& options, const Json& carried, const std::string& dtype,
               const std::vector<std::string>& classes = {});

}  // namespace lockstep::launcher::hf
