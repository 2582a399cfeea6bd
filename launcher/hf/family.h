// HfFamily: maps a family's tensor names and config.json keys of Hugging Face to our names. One table per
// family serves both directions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace lockstep::launcher::hf {

// How one of their tensors maps to one of ours.
enum class How {
  as_it_is,
  transposed,  // of two dims
  rows,        // it is a part of our rows: `part` of `parts` equal ones
};
// In names {i} is the number of a block and {p} is weight or bias.
struct NameRule {
  std::string_view theirs, ours;
  How how = How::as_it_is;
  int part = 0, parts = 1;
};
// An alias of a tensor: its stored value must equal the tensor. It is not written.
struct TiedName {
  std::string_view name, of;  // both theirs
};
// Tensors that are not weights of the model: `pattern` for glob_match.
struct UnreadTensor {
  std::string_view pattern, why;
};

enum class KeyRole {
  option,    // the value of our option `ours`
  dropout,   // an option that only affects training
  context,   // an option of models whose weights do not depend on it
  fixed,     // `can` lists all supported values
  training,  // only affects training; trainrun treats it as 0 and reports that
  inert,     // does not affect our computation: preserved
};
// A key of config.json. `absent` and `can` are JSON: transformers' default for a missing key ("": required),
// and a list. A null option is 0 in ours.
struct KeyRule {
  std::string_view theirs;
  KeyRole role;
  std::string_view ours = "", absent = "null", can = "";
};

// Frequency settings in rope_scaling and rope_parameters, for families with options for them.
inline constexpr std::string_view kRopeFactor = "rope_parameters.factor",
                                  kRopeLow = "rope_parameters.low_freq_factor",
                                  kRopeHigh = "rope_parameters.high_freq_factor",
                                  kRopeOriginal = "rope_parameters.original_max_position_embeddings";

// Keys that need more than a table row.
enum class Special {
  rope,     // rope_theta, rope_scaling and rope_parameters
  window,   // sliding windows in some layers: use_sliding_window, layer_types
  inner,    // gpt2's n_inner
  classes,  // the number of labels
};

struct HfFamily {
  std::string_view model_type = "";    // of config.json
  std::string_view architecture = "";  // that is exported
  // further architectures whose files have these weights, and maybe more
  std::vector<std::string_view> also = {};
  std::string_view kind = "";     // model.kind
  std::string_view version = "";  // its option `version`; "": it has none
  std::string_view prefix = "";   // absent in files of the bare model
  std::string_view hidden = "";   // our FQN whose rows are the option `hidden`; "": it has none
  std::vector<NameRule> names = {};
  std::vector<TiedName> tied = {};
  std::vector<UnreadTensor> left_out = {};
  // older name suffixes, and current ones
  std::vector<std::pair<std::string_view, std::string_view>> renamed = {};
  std::vector<KeyRule> keys = {};
  std::vector<Special> special = {};
  // Keys of features that the model lacks: such a key is ignored if it is off.
  std::vector<std::string_view> lacks = {};
  bool generates = true;  // its export has a generation_config.json
};

// All families; and the inert keys of any config.json.
std::span<const HfFamily* const> families();
std::span<const KeyRule> shared_keys();
// HfFamily::lacks of all of them.
std::span<const std::string_view> lacked_by_all();
// The family of a config.json with a model_type: the one with model.kind `kind`, for "" the one of its
// architectures, else the first of the type. UserError naming the known types, and `where`.
const HfFamily& family_of_config(const Json& config, const std::string& where, const std::string& kind);
// The family of one of our models; `version` is its option, "" if it has none. UserError naming the kinds.
const HfFamily& family_of_kind(const std::string& kind, const std::string& version);

// The tables, one file each.
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
