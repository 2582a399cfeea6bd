// What changed between the config of a checkpoint and that of the run which goes on from it, and what each
// change does to bits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/config/config.h"

namespace lockstep::launcher {

// What another value of a key does to a run that is resumed. Every key has one (the table in changes.cpp; a
// test compares it with config_keys).
enum class Effect {
  none,       // nothing that a bit depends on
  rounding,   // the numerics certificate decides: the same one promises the same bits
  measures,   // same bits; other figures are reported
  guards,     // same bits, but for steps that are passed over
  samples,    // other samples, or others of them, from the next step on
  training,   // other noise in training
  schedule,   // another learning rate
  optimizer,  // other updates from the same gradients
  task,       // another loss
  model,      // the same weights, read as another model
};
// Nothing for a path that is no key.
std::optional<Effect> effect_of(const std::string& path);

struct ConfigChange {
  std::string path;
  Json was, is;
  Effect effect = Effect::none;
  std::string words;  // "other samples from step 61 on"
};

// The keys that differ and matter, in the order of the struct. `stored`: the config of the checkpoint as
// JSON; a key that it does not have was at its default. `step`: of the checkpoint. Changes that only the
// certificate decides are left out unless `other_certificate`. Empty when `stored` is no config of a run (a
// program of a user's own saves none).
std::vector<ConfigChange> config_changes(const Json& stored, const RunConfig& now, int64_t step,
                                         bool other_certificate);

// A line per change, in columns: key, then, now, what it does to bits. "" without changes.
std::string changes_table(const std::vector<ConfigChange>& changes);

// "" unless a change makes another model that resume.allow does not name; then what is refused, and the way
// out.
std::string other_model_error(const std::vector<ConfigChange>& changes, const RunConfig& now,
                              const std::string& checkpoint);

}  // namespace lockstep::launcher
