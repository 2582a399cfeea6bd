// Reads and writes config.json by the family tables.
#include "launcher/hf/config.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/models/family.h"
#include "core/reading/one_line.h"

namespace lockstep::launcher::hf {

namespace {
bool is_option(const KeyRule& rule) {
  return rule.role == KeyRole::option || rule.role == KeyRole::dropout || rule.role == KeyRole::context;
}
bool has(const HfFamily& family, Special special) {
  return std::find(family.special.begin(), family.special.end(), special) != family.special.end();
}
// null, false, 0, "" and empty values request nothing.
bool is_off(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         ((value.is_array() || value.is_object()) && value.empty());
}
std::string shown(const Json& value) { return shortened(printable(value.dump()), 120); }

// A number without a fraction as an integer; false for other values, and beyond 2^53.
bool make_whole(Json& value) {
  if (!value.is_number()) return false;
  const double number = value.get<double>();
  if (!(std::abs(number) <= 0x1p53) || number != std::trunc(number)) return false;
  value = static_cast<int64_t>(number);
  return true;
}

// The default of an option of ours.
Json fallback(const HfFamily& family, std::string_view name) {
  for (const ConfigKey& key : models::family(family.kind).keys())
    if (key.path == name) return key.fallback;
  throw InternalError(str(family.kind, " has no option ", name));
}
Json or_zero(const HfFamily& family, const KeyRule& rule, const Json& value) {
  return value.is_null() ? fallback(family, rule.ours).is_boolean() ? Json(false) : Json(0) : value;
}

// Whether a part of rope_parameters has a row of its own.
bool scales_rope(const HfFamily& family, std::string_view part) {
  return part.starts_with("rope_parameters.") &&
         std::any_of(family.keys.begin(), family.keys.end(),
                     [&](const KeyRule& rule) { return rule.theirs == part; });
}

// A config.json being read: rules remove keys from `rest`, and the remaining ones are unknown.
class Reader {
 public:
  Reader(const Json& config, const HfFamily& family, const std::string& where)
      : config_(config), rest_(config), family_(family), where_(where) {
    out_.family = &family;
    out_.options = Json::object();
    if (!family.version.empty()) out_.options["version"] = family.version;
  }

  HfModel read(const std::vector<std::string>& accept) {
    if (has(family_, Special::rope)) rope();
    for (const KeyRule& rule : family_.keys) take(rule);
    for (const KeyRule& rule : shared_keys()) rest_.erase(std::string(rule.theirs));
    if (has(family_, Special::inner)) inner();
    if (has(family_, Special::window)) window();
    if (has(family_, Special::classes)) classes();
    architecture();
    for (const auto& [key, value] : rest_.items())
      if (says_something(key, value) && std::find(accept.begin(), accept.end(), key) == accept.end())
        wrong_.push_back(str(
            shortened(one_line(key), 80), " is ", shown(value), ", a key that trainrun does not know",
            is_off(value) ? ", and it may turn off what trainrun computes" : "",
            "; if it changes nothing of what the model computes: --accept=", shortened(one_line(key), 80)));
    if (!wrong_.empty())
      throw UserError(str(where_, " (", family_.model_type, ") cannot be computed as it says:\n  ",
                          join(wrong_, "\n  ")));
    return out_;
  }

 private:
  // Handles a key without a rule. A value that is off usually requests nothing, but it may disable a feature
  // that the model has: "use_rope": false.
  bool says_something(const std::string& key, const Json& value) const {
    if (value.is_null()) return false;
    if (!is_off(value)) return true;
    auto among = [&](const auto& names) { return std::find(names.begin(), names.end(), key) != names.end(); };
    if (among(family_.lacks) || among(lacked_by_all())) return false;
    const auto ends = {"dropout",    "_pdrop",     "_dropout_prob", "_drop_prob",
                       "_drop_rate", "_loss_coef", "_loss_weight",  "_token_id"};
    return std::none_of(ends.begin(), ends.end(), [&](const char* end) { return key.ends_with(end); });
  }

  Json taken(const std::string& key, const Json& absent = nullptr) {
    Json value = rest_.contains(key) ? rest_[key] : absent;
    rest_.erase(key);
    return value;
  }

  void take(const KeyRule& rule) {
    const std::string key(rule.theirs);
    const bool there = rest_.contains(key);
    if (!there && rule.absent.empty()) {
      wrong_.push_back(str(key, " is missing; it says model.", rule.ours));
      return;
    }
    const Json value = taken(key, there ? Json() : Json::parse(rule.absent));
    switch (rule.role) {
      case KeyRole::inert:
        return;
      case KeyRole::training:
        if (!is_off(value))
          out_.told.push_back(str(key, " is ", shown(value),
                                  "; here training drops no attention "
                                  "probabilities, which changes nothing of what the model computes"));
        return;
      case KeyRole::fixed:
        return check_fixed(rule, value);
      case KeyRole::option:
      case KeyRole::dropout:
      case KeyRole::context:
        return take_option(rule, or_zero(family_, rule, value));
    }
  }

  void check_fixed(const KeyRule& rule, const Json& value) {
    const Json can = Json::parse(rule.can);
    if (std::find(can.begin(), can.end(), value) != can.end()) return;
    std::vector<std::string> words;
    for (const auto& one : can) words.push_back(one.dump());
    wrong_.push_back(str(rule.theirs, " is ", shown(value), "; trainrun's ", family_.kind, " computes ",
                         join(words, " or "), " alone"));
  }

  void take_option(const KeyRule& rule, Json value) {
    const std::string ours(rule.ours);
    const Json typed = fallback(family_, ours);
    const char* must = typed.is_boolean()          ? value.is_boolean() ? nullptr : "a truth value"
                       : typed.is_number_integer() ? make_whole(value) ? nullptr : "a whole number"
                       : value.is_number()         ? nullptr
                                                   : "a number";
    if (must) {
      wrong_.push_back(
          str(rule.theirs, " is ", shown(value), "; it must be ", must, ", which is model.", ours));
      return;
    }
    if (!out_.options.contains(ours))
      out_.options[ours] = value;
    else if (out_.options[ours] != value)
      out_.told.push_back(str(rule.theirs, " is ", shown(value), "; model.", ours, " is ",
                              shown(out_.options[ours]), " everywhere, in training alone"));
  }

  // rope_scaling and rope_theta must agree with rope_parameters if both are present.
  void agree_on_rope() {
    const Json now = config_.value("rope_parameters", Json()), theta = config_.value("rope_theta", Json());
    if (is_off(now) || !now.is_object()) return;
    Json before = config_.value("rope_scaling", Json());
    if (before.is_object() && !before.empty()) before["rope_type"] = rope_type(before), before.erase("type");
    if (!theta.is_null() && (before.is_null() || before.is_object())) before["rope_theta"] = theta;
    for (const auto& [name, part] : before.items())
      if (const Json one = name == "rope_type" ? Json(rope_type(now)) : now.value(name, part); one != part)
        wrong_.push_back(str("rope_parameters has ", name, " ", shown(one), ", and ",
                             name == "rope_theta" ? "the key rope_theta is " : "rope_scaling has ",
                             shown(part), ": two models; mend one, or take it out"));
  }
  // Current files have rope_parameters, older ones rope_theta and rope_scaling. Their parts become separate
  // keys.
  void rope() {
    agree_on_rope();
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      const Json value = taken(key);
      if (is_off(value)) continue;
      const std::string type = rope_type(value);
      std::vector<std::string> other;  // parts with another meaning
      if (!value.is_object()) other.emplace_back(key);
      if (value.is_object()) take_rope(value, other);
      const bool scaled = scales_rope(family_, kRopeFactor) && (type == "linear" || type == "llama3");
      if (other.empty() && (scaled || type == "default")) {
        check_rope(key, type);
        continue;
      }
      wrong_.push_back(str(key, " is ", shown(value), "; trainrun's ", family_.kind,
                           " computes rotary positions of rope_type \"default\"",
                           scales_rope(family_, kRopeFactor) ? ", \"linear\" and \"llama3\"" : "",
                           " alone; without it the model is another one beyond its first training length"));
    }
  }
  static std::string rope_type(const Json& value) {
    for (const char* name : {"rope_type", "type"})
      if (value.is_object() && value.contains(name))
        return value[name].is_string() ? value[name].get<std::string>() : "";
    return "default";
  }
  void take_rope(const Json& value, std::vector<std::string>& other) {
    for (const auto& [name, part] : value.items()) {
      const std::string row = "rope_parameters." + name;
      if (name == "rope_theta")
        rest_["rope_theta"] = part;
      else if (scales_rope(family_, row))
        rest_[row] = part;
      else if (name != "rope_type" && name != "type" && (name != "partial_rotary_factor" || part != 1))
        other.push_back(name);
    }
  }

  // Parts that a type does not use are dropped; those that it needs must be present.
  void check_rope(const char* key, const std::string& type) {
    for (const std::string_view part : {kRopeFactor, kRopeLow, kRopeHigh, kRopeOriginal}) {
      const std::string name(part);
      if (type != "llama3" && (part != kRopeFactor || type == "default"))
        rest_.erase(name);
      else if (!rest_.contains(name))
        wrong_.push_back(str(key, " has rope_type \"", type, "\" and no ", name.substr(name.find('.') + 1)));
    }
  }

  void inner() {
    const Json value = taken("n_inner"), width = out_.options.value("width", Json(0));
    if (value.is_null() || (width.is_number_integer() && value == 4 * width.get<int64_t>())) return;
    wrong_.push_back(str("n_inner is ", shown(value), " and n_embd is ", shown(width),
                         "; trainrun's gpt has 4 times n_embd inside the MLP"));
  }

  void window() {
    const Json used = taken("use_sliding_window"), types = taken("layer_types");
    if (!is_off(used))
      wrong_.push_back(str("use_sliding_window is ", shown(used), "; trainrun's ", family_.kind,
                           " sees all tokens before, in every block; only mistral has a window"));
    if (types.is_null()) return;
    if (!types.is_array() ||
        std::any_of(types.begin(), types.end(), [](const Json& type) { return type != "full_attention"; }))
      wrong_.push_back(str("layer_types is ", shown(types), "; trainrun's ", family_.kind,
                           " computes \"full_attention\" in every block"));
  }

  void classes() {
    const Json labels = config_.value("id2label", Json());
    const Json count = config_.value("num_labels", Json(2));
    out_.options["classes"] = labels.is_object() ? Json(labels.size()) : count;
    if (!labels.is_object()) return;
    for (size_t i = 0; i < labels.size(); ++i) {
      const Json given = labels.value(str(i), Json());
      const std::string name = given.is_string() ? given.get<std::string>() : "";
      if (name.empty() || name == str("LABEL_", i) ||
          std::find(out_.classes.begin(), out_.classes.end(), name) != out_.classes.end())
        return out_.classes.clear();
      out_.classes.push_back(name);
    }
  }

  void architecture() {
    const Json named = config_.value("architectures", Json());
    if (!named.is_array() || named.empty()) return;
    for (const auto& one : named) {
      const std::string name = one.is_string() ? one.get<std::string>() : "";
      if (name == family_.architecture ||
          std::find(family_.also.begin(), family_.also.end(), name) != family_.also.end())
        return;
    }
    wrong_.push_back(str("architectures is ", shown(named), "; trainrun's ", family_.kind, " is a ",
                         family_.architecture));
  }

  const Json& config_;
  Json rest_;
  const HfFamily& family_;
  const std::string& where_;
  HfModel out_;
  std::vector<std::string> wrong_;
};

// Writes one of our numbers into a config.json.
void put(Json& config, const KeyRule& rule, const Json& value) {
  if (rule.theirs == "rope_theta") {
    const bool today = config.contains("rope_parameters") && config["rope_parameters"].is_object();
    if (today) config["rope_parameters"]["rope_theta"] = value;
    if (!today || config.contains("rope_theta")) config["rope_theta"] = value;
    return;
  }
  if (rule.theirs.starts_with("rope_parameters.")) return;  // put_rope
  const bool none = value == 0 && value.is_number_integer() && rule.role == KeyRole::option;
  config[std::string(rule.theirs)] = none ? Json() : value;
}

// Frequencies in the form of current and of older transformers.
void put_rope(Json& config, const Json& options) {
  const bool llama3 = options["rope_original"] != 0, linear = !llama3 && options["rope_factor"] != 1;
  Json rope = {{"rope_type", llama3 ? "llama3" : linear ? "linear" : "default"}};
  if (llama3 || linear) rope["factor"] = options["rope_factor"];
  if (llama3) {
    rope["low_freq_factor"] = options["rope_low"];
    rope["high_freq_factor"] = options["rope_high"];
    rope["original_max_position_embeddings"] = options["rope_original"];
  }
  config.erase("rope_scaling");
  if (llama3 || linear) config["rope_scaling"] = rope;
  rope["rope_theta"] = options["rope_theta"];
  config["rope_parameters"] = rope;
  config["rope_theta"] = options["rope_theta"];
}

void put_classes(Json& config, int64_t classes, const std::vector<std::string>& given) {
  Json names = Json::object(), ids = Json::object();
  for (int64_t i = 0; i < classes; ++i) {
    const std::string name = given.empty() ? str("LABEL_", i) : given[static_cast<size_t>(i)];
    names[str(i)] = name, ids[name] = i;
  }
  config["id2label"] = names;
  config["label2id"] = ids;
}

// For a model that was not imported: all settings of its family, explicitly.
Json first_config(const HfFamily& family) {
  Json out = {{"architectures", Json::array({family.architecture})}, {"model_type", family.model_type}};
  for (const KeyRule& rule : family.keys)
    if (rule.role == KeyRole::fixed)
      if (const Json value = Json::parse(rule.can)[0]; !value.is_null())
        out[std::string(rule.theirs)] = value;
  // Our training has no such dropout, but transformers would use one if the key were missing.
  for (const KeyRule& rule : family.keys)
    if (rule.role == KeyRole::training && !is_off(Json::parse(rule.absent)))
      out[std::string(rule.theirs)] = 0.0;
  if (has(family, Special::rope)) out["rope_parameters"] = {{"rope_type", "default"}}, out["rope_theta"] = 0;
  return out;
}
}  // namespace

HfModel model_of(const Json& config, const std::string& where, const std::vector<std::string>& accept,
                 const std::string& kind) {
  if (!config.is_object() || !config.contains("model_type") || !config["model_type"].is_string())
    throw UserError(str(where, " has no model_type, so it is no config.json of a model of Hugging Face"));
  return Reader(config, family_of_config(config, where, kind), where).read(accept);
}

std::vector<std::string> differences(const HfModel& theirs, const Json& options, const std::string& where) {
  std::vector<std::string> out;
  for (const KeyRule& rule : theirs.family->keys) {
    const std::string ours(rule.ours);
    if (rule.role != KeyRole::option || !theirs.options.contains(ours)) continue;
    const Json &there = theirs.options[ours], &here = options[ours];
    const bool chosen = there == 0 && (ours == "kv_heads" || ours == "head_dim");
    const Json meant = chosen ? ours == "kv_heads"
                                    ? theirs.options["heads"]
                                    : Json(theirs.options["width"].get<int64_t>() /
                                           std::max<int64_t>(theirs.options["heads"].get<int64_t>(), 1))
                              : there;
    if (meant != here)
      out.push_back(str(rule.theirs, " is ", meant.dump(), " in ", where, " and model.", ours, " is ",
                        here.dump(), "; set --model.", ours, "=", meant.dump()));
  }
  return out;
}

Json complete(const HfFamily& family, const Json& options, int64_t hidden) {
  Json out = Json::object();
  for (const ConfigKey& key : models::family(family.kind).keys())
    out[key.path] = options.contains(key.path) ? options[key.path] : key.fallback;
  if (out.contains("kv_heads") && out["kv_heads"] == 0) out["kv_heads"] = out["heads"];
  if (out.contains("head_dim") && out["head_dim"] == 0)
    out["head_dim"] = out["width"].get<int64_t>() / std::max<int64_t>(out["heads"].get<int64_t>(), 1);
  if (out.contains("hidden") && out["hidden"] == 0) out["hidden"] = hidden;
  return out;
}

Json config_of(const HfFamily& family, const Json& options, const Json& carried, const std::string& dtype,
               const std::vector<std::string>& classes) {
  const bool imported = carried.is_object() && carried.value("model_type", "") == family.model_type;
  Json out = imported ? carried : first_config(family);
  std::vector<std::string> every;  // keys accepted at import are preserved
  for (const auto& [key, value] : out.items()) every.push_back(key);
  const Json known =
      imported ? complete(family, model_of(carried, "config.json", every, std::string(family.kind)).options,
                          options.value("hidden", int64_t{0}))
               : Json::object();
  bool rope = false;  // its frequencies differ
  for (const KeyRule& rule : family.keys) {
    if (!is_option(rule)) continue;
    const Json& value = options[std::string(rule.ours)];
    const bool said = imported && known.contains(std::string(rule.ours));
    if (said && (known[std::string(rule.ours)] == value ||
                 (rule.role == KeyRole::context && known[std::string(rule.ours)] >= value)))
      continue;
    put(out, rule, value);
    rope = rope || rule.theirs.starts_with("rope_parameters.");
  }
  if (rope) put_rope(out, options);
  if (has(family, Special::classes) &&
      (!imported || known["classes"] != options["classes"] || !classes.empty()))
    put_classes(out, options["classes"], classes);
  out.erase("transformers_weights");  // an export uses the default file names
  out["architectures"] = Json::array({family.architecture});
  out[out.contains("dtype") ? "dtype" : "torch_dtype"] = dtype;
  return out;
}

}  // namespace lockstep::launcher::hf
