// Config changes: the table of each key's effect, and the comparison that uses it.
#include "launcher/config/changes.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace lockstep::launcher {

namespace {
constexpr std::pair<std::string_view, Effect> kEffects[] = {
    {"name", Effect::none},
    {"placements", Effect::rounding},
    {"model.kind", Effect::model},
    {"model.context", Effect::samples},
    {"model.dropout", Effect::training},
    {"mesh.shape", Effect::rounding},
    {"mesh.dim_names", Effect::rounding},
    {"mesh.zero", Effect::none},
    {"mesh.gather", Effect::none},
    {"mesh.ranks_per_node", Effect::none},
    {"mesh.reshard_after_forward", Effect::none},
    {"data.kind", Effect::samples},
    {"data.paths", Effect::none},  // the files' content is compared, not their place
    {"data.sources", Effect::samples},
    {"data.tokenizer", Effect::samples},
    {"data.eos", Effect::samples},
    {"data.text", Effect::samples},
    {"data.prompt", Effect::samples},
    {"data.completion", Effect::samples},
    {"data.messages", Effect::samples},
    {"data.label", Effect::samples},
    {"data.text_pair", Effect::samples},
    {"data.classes", Effect::samples},
    {"data.template", Effect::samples},
    {"data.pack", Effect::samples},
    {"data.image.crop", Effect::samples},
    {"data.image.crop_share", Effect::samples},
    {"data.image.flip", Effect::samples},
    {"data.image.mean", Effect::samples},
    {"data.image.std", Effect::samples},
    {"data.dtype", Effect::samples},
    {"data.order", Effect::samples},
    {"data.validation", Effect::samples},
    {"data.raw", Effect::none},
    {"data.fingerprint", Effect::none},
    {"batch.global", Effect::samples},
    {"batch.micro", Effect::rounding},
    {"batch.lanes", Effect::rounding},
    {"train.steps", Effect::schedule},
    {"train.seed", Effect::samples},
    {"train.precision", Effect::rounding},
    {"train.numerics", Effect::rounding},
    {"train.device", Effect::rounding},
    {"train.eval_every", Effect::none},
    {"train.eval_batches", Effect::measures},
    {"train.monitor", Effect::none},
    {"train.monitor_mode", Effect::none},
    {"train.patience", Effect::none},
    {"train.min_delta", Effect::none},
    {"train.on_nonfinite", Effect::guards},
    {"train.nonfinite_limit", Effect::none},  // when to give up
    {"train.on_spike", Effect::guards},
    {"train.spike_factor", Effect::guards},
    {"train.spike_window", Effect::guards},
    {"train.init_from", Effect::none},  // a resumed run does not read it
    {"train.freeze", Effect::optimizer},
    {"train.float8.gradients", Effect::rounding},
    {"train.float8.recipe", Effect::rounding},
    {"train.float8.history", Effect::rounding},
    {"train.float8.skip", Effect::rounding},
    {"train.float8.head", Effect::rounding},
    {"train.lora.rank", Effect::model},
    {"train.lora.alpha", Effect::model},
    {"train.lora.dropout", Effect::training},
    {"train.lora.targets", Effect::model},
    {"train.lora.also", Effect::optimizer},
    {"optim.kind", Effect::optimizer},
    {"optim.lr", Effect::schedule},
    {"optim.betas", Effect::optimizer},
    {"optim.eps", Effect::optimizer},
    {"optim.moments", Effect::optimizer},
    {"optim.offload", Effect::none},
    {"optim.weight_decay", Effect::optimizer},
    {"optim.momentum", Effect::optimizer},
    {"optim.nesterov", Effect::optimizer},
    {"optim.alpha", Effect::optimizer},
    {"optim.clip", Effect::optimizer},
    {"optim.groups", Effect::optimizer},
    {"optim.muon.lr", Effect::schedule},
    {"optim.muon.momentum", Effect::optimizer},
    {"optim.muon.nesterov", Effect::optimizer},
    {"optim.muon.iterations", Effect::optimizer},
    {"optim.muon.rate", Effect::optimizer},
    {"optim.muon.adamw", Effect::optimizer},
    {"optim.adafactor.beta2_decay", Effect::optimizer},
    {"optim.adafactor.eps2", Effect::optimizer},
    {"optim.adafactor.d", Effect::optimizer},
    {"optim.schedule.kind", Effect::schedule},
    {"optim.schedule.warmup", Effect::schedule},
    {"optim.schedule.min_ratio", Effect::schedule},
    {"optim.schedule.decay", Effect::schedule},
    {"optim.schedule.period", Effect::schedule},
    {"optim.schedule.growth", Effect::schedule},
    {"optim.schedule.metric", Effect::schedule},
    {"optim.schedule.mode", Effect::schedule},
    {"optim.schedule.every", Effect::schedule},
    {"optim.schedule.factor", Effect::schedule},
    {"optim.schedule.patience", Effect::schedule},
    {"optim.schedule.threshold", Effect::schedule},
    {"optim.schedule.threshold_mode", Effect::schedule},
    {"optim.schedule.cooldown", Effect::schedule},
    {"compile.backend", Effect::rounding},
    {"compile.threads", Effect::none},
    {"compile.bucket_bytes", Effect::none},
    {"compile.memory_budget", Effect::none},
    {"compile.offload_activations", Effect::none},
    {"compile.together", Effect::rounding},
    {"compile.tp_pieces", Effect::rounding},
    {"compile.capture", Effect::none},
    {"compile.fusion", Effect::rounding},
    {"compile.skip_passes", Effect::rounding},
    {"compile.load_ops", Effect::none},  // the certificate covers the effect of passes
    {"compile.extra_passes", Effect::rounding},
    {"checkpoint.dir", Effect::none},
    {"checkpoint.every", Effect::none},
    {"checkpoint.async", Effect::none},
    {"checkpoint.memory_every", Effect::none},
    {"checkpoint.best", Effect::none},
    {"checkpoint.keep", Effect::none},
    {"checkpoint.retries", Effect::none},
    {"checkpoint.on_failure", Effect::none},
    {"resume.allow", Effect::none},
    {"load.partial", Effect::none},  // skipped tensors are reported
    {"log.every", Effect::none},
    {"log.hash_every", Effect::none},
    {"log.norms_every", Effect::none},
    {"log.tensorboard", Effect::none},
    {"log.profile", Effect::none},
    {"watch.deadline", Effect::none},
    {"watch.start_deadline", Effect::none},
    {"verify.collectives", Effect::none},
    {"verify.replicas_every", Effect::none},
    {"verify.recompute_every", Effect::none},
    {"verify.on_corruption", Effect::none},
    {"launch.network", Effect::none},
    {"launch.ports", Effect::none},
};

// The stored value of a key, or its default if the checkpoint's config lacks it.
Json stored_value(const Json& stored, const RunConfig& now, const ConfigKey& row) {
  const Json* node = &stored;
  for (const auto& part : split(row.path, '.')) {
    if (!node->is_object() || !node->contains(part)) return default_of(now, row);
    node = &(*node)[part];
  }
  return *node;
}

std::string words_of(const ConfigKey& row, const Json& was, const RunConfig& now, Effect effect,
                     int64_t step) {
  const std::string from = str(" from step ", step + 1, " on");
  if (row.path == "train.seed")
    return str("other samples and dropout masks", from, "; the weights stay those of the checkpoint");
  if (row.path == "batch.global" && was.is_number_integer() && was.get<int64_t>() > 0)
    return str("other samples", from, ": that step starts at sample ", step * now.batch.global,
               " of the order, not at ", step * was.get<int64_t>(), ", and averages over ", now.batch.global);
  switch (effect) {
    case Effect::none:
      return "same bits";
    case Effect::rounding:
      return str("other rounding", from);
    case Effect::measures:
      return "same bits; validation losses are of other sequences";
    case Effect::guards:
      return "same bits, but for steps that are passed over";
    case Effect::samples:
      return str("other samples", from);
    case Effect::training:
      return str("other dropout masks", from);
    case Effect::schedule:
      return str("another learning rate", from);
    case Effect::optimizer:
      return str("other updates of the same gradients", from);
    case Effect::task:
      return str("another loss", from);
    case Effect::model:
      return "another model of the same weights";
  }
  return "";
}
}  // namespace

std::optional<Effect> effect_of(const std::string& path) {
  for (const auto& [key, effect] : kEffects)
    if (key == path) return effect;
  if (path.starts_with("model.") && find_key(path)) return Effect::model;
  if (path.starts_with("task.") && find_key(path)) return Effect::task;
  return {};
}

std::vector<ConfigChange> config_changes(const Json& stored, const RunConfig& now, int64_t step,
                                         bool other_certificate) {
  std::vector<ConfigChange> out;
  if (!stored.is_object() || !stored.contains("model") || !stored["model"].is_object()) return out;
  for (const auto& row : config_keys()) {
    if (!has_meaning(now, row)) continue;
    auto effect = effect_of(row.path);
    LS_CHECK(effect, "key ", row.path, " has no row in launcher/config/changes.cpp");
    const bool constant_rate = row.path == "train.steps" && now.optim.schedule.kind == "constant";
    if (*effect == Effect::none || constant_rate || (*effect == Effect::rounding && !other_certificate))
      continue;
    Json was = stored_value(stored, now, row), is = get_key(now, row);
    if (was == is) continue;
    out.push_back({row.path, was, is, *effect, words_of(row, was, now, *effect, step)});
  }
  return out;
}

std::string changes_table(const std::vector<ConfigChange>& changes) {
  std::vector<std::vector<std::string>> rows = {{"key", "checkpoint", "now", "what it does to bits"}};
  auto dump = [](const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); };
  for (const auto& change : changes)
    rows.push_back({change.path, dump(change.was), dump(change.is), change.words});
  if (changes.empty()) return "";
  std::string out;
  for (const auto& row : rows) {
    out += "\n  ";
    for (size_t i = 0; i < row.size(); ++i) {
      size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[i].size());
      out += row[i] + (i + 1 < row.size() ? std::string(width - row[i].size() + 2, ' ') : "");
    }
  }
  return out.substr(1);
}

std::string other_model_error(const std::vector<ConfigChange>& changes, const RunConfig& now,
                              const std::string& checkpoint) {
  std::vector<ConfigChange> of_model;
  for (const auto& change : changes)
    if (change.effect == Effect::model) of_model.push_back(change);
  const auto& allowed = now.resume.allow;
  if (of_model.empty() || now.load.partial ||
      std::find(allowed.begin(), allowed.end(), "model") != allowed.end())
    return "";
  return str(checkpoint,
             " was made by another model: its weights fit this one, but mean something else in it\n",
             changes_table(of_model), "\n  set ", of_model.size() == 1 ? "it" : "them",
             " back, start afresh under another --name, or, where it is meant, add --resume.allow=model");
}

}  // namespace lockstep::launcher
