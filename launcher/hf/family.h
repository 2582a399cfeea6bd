// What Hugging Face calls the things of a family: its tensors and the keys of its config.json, beside our
// names. One table per family says both directions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace lockstep::launcher::hf {

// How a tensor of theirs lies in one of ours.
enum class How {
  as_it_is,
  transposed,  // of two dims
  rows,        // it is a share of our rows: `part` of `parts` equal ones
};
// In names {i} stands for the number of a block and {p} for weight or bias.
struct NameRule {
  std::string_view theirs, ours;
  How how = How::as_it_is;
  int part = 0, parts = 1;
};
// A second name of a tensor: what is stored under it must be the tensor itself. It is not written.
struct TiedName {
  std::string_view name, of;  // both theirs
};
// Tensors that are no weights of the model: `pattern` as glob_match has it.
struct UnreadTensor {
  std::string_view pattern, why;
};

enum class KeyRole {
  option,    // the value of our option `ours`
  dropout,   // an option too, which matters in training alone
  context,   // an option too, of models whose weights do not depend on it
  fixed,     // `can` lists all that the model computes
  training,  // changes training alone, where trainrun does as if it were 0: said
  inert,     // changes nothing that is computed here: carried along
};
// A key of config.json. `absent` and `can` are JSON: what transformers takes where the key is missing ("": it
// must be there), and a list. An option of null is our 0.
struct KeyRule {
  std::string_view theirs;
  KeyRole role;
  std::string_view ours = "", absent = "null", can = "";
};

// What rope_scaling and rope_parameters say of frequencies, of families that have options for them.
inline constexpr std::string_view kRopeFactor = "rope_parameters.factor",
                                  kRopeLow = "rope_parameters.low_freq_factor",
                                  kRopeHigh = "rope_parameters.high_freq_factor",
                                  kRopeOriginal = "rope_parameters.original_max_position_embeddings";

// Keys that take more than a row.
enum class Special {
  rope,     // rope_theta, rope_scaling and rope_parameters
  window,   // sliding windows of some layers: use_sliding_window, layer_types
  inner,    // gpt2's n_inner
  classes,  // the number of labels
};

struct HfFamily {
  std::string_view model_type = "";         // of config.json
  std::string_view architecture = "";       // that is exported
  std::vector<std::string_view> also = {};  // architectures whose files have these weights, perhaps more
  std::string_view kind = "";               // model.kind
  std::string_view version = "";            // its option `version`; "": it has none
  std::string_view prefix = "";             // which files of the bare model lack
  std::string_view hidden = "";             // our FQN whose rows are the option `hidden`; "": it has none
  std::vector<NameRule> names = {};
  std::vector<TiedName> tied = {};
  std::vector<UnreadTensor> left_out = {};
  std::vector<std::pair<std::string_view, std::string_view>> renamed =
      {};  // older ends of names, and today's
  std::vector<KeyRule> keys = {};
  std::vector<Special> special = {};
  // Keys that no rule knows, of what the model does not compute: where one is off, nothing is said by it.
  std::vector<std::string_view> lacks = {};
  bool generates = true;  // generation_config.json belongs to it
};

// All families, and the rows of all of them: keys of any config.json that are inert.
std::span<const HfFamily* const> families();
std::span<const KeyRule> shared_keys();
// HfFamily::lacks of all of them.
std::span<const std::string_view> lacked_by_all();
// Of a config.json with a model_type: that of model.kind `kind`, "" for the one that its architectures name;
// else the first of the type. UserError naming the types that there are, and `where`.
const HfFamily& family_of_config(const Json& config, const std::string& where, const std::string& kind);
// Of a model of ours; `version` is its option, "" where it has none. UserError naming the kinds.
const HfFamily& family_of_kind(const std::string& kind, const std::string& version);

// A file per table.
const HfFamily& gpt2();
const HfFamily& llama();
const HfFamily& qwen2();
const HfFamily& qwen3();
const HfFamily& mistral();
const HfFamily& gemma();
const HfFamily& bert();
const HfFamily& bert_classifier();
const HfFamily& vit();

}  // namespace lockstep::launcher::hf
