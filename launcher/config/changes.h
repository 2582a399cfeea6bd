// Lists changes between a checkpoint's config and that of the resumed run, and the effect of each on bits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/config/config.h"

namespace lockstep::launcher {

// The effect of a changed key on a resumed run. Every key has one (the table in changes.cpp; a test compares
// it with config_keys).
enum class Effect {
  none,       // no effect on bits
  rounding,   // the numerics certificate decides: the same one promises the same bits
  measures,   // same bits; different figures are reported
  guards,     // same bits, except for skipped steps
  samples,    // different samples or sample order from the next step on
  training,   // different noise in training
  schedule,   // another learning rate
  optimizer,  // different updates from the same gradients
  task,       // another loss
  model,      // the same weights interpreted as another model
};
// nullopt for a path that is not a key.
std::optional<Effect> effect_of(const std::string& path);

struct ConfigChange {
  std::string path;
  Json was, is;
  Effect effect = Effect::none;
  std::string words;  // "other samples from step 61 on"
};

// The keys that differ and matter, in the order of the struct. `stored`: the config of the checkpoint as
// JSON; a key that it does not have was at its default. `step`: of the checkpoint. Changes covered by the
// certificate are left out unless `other_certificate`. Empty when `stored` is not a run's config (user
// programs save none).
std::vector<ConfigChange> config_changes(const Json& stored, const RunConfig& now, int64_t step,
                                         bool other_certificate);

// A line per change, in columns: key, then, now, what it does to bits. "" without changes.
std::string changes_table(const std::vector<ConfigChange>& changes);

// "" unless a change makes another model and resume.allow does not name it; then the refusal and the way out.
std::string other_model_error(const std::vector<ConfigChange>& changes, const RunConfig& now,
                              const std::string& checkpoint);

}  // namespace lockstep::launcher
