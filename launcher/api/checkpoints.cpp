// Checkpoints of a user's program, and weights that its state starts from.
#include <algorithm>
#include <filesystem>
#include <set>

#include "checkpoint/plan/fit.h"
#include "checkpoint/tensor_files.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/mesh/together.h"
#include "distributed/watch/flight_record.h"
#include "launcher/api/program.h"
#include "launcher/api/replayed_run.h"
#include "launcher/supervise/contract.h"
#include "launcher/supervise/program_folders.h"

namespace lockstep {

using namespace checkpoint;

namespace fs = std::filesystem;

namespace {
using Kind = NamedCheckpoints::Kind;

// What a folder without a checkpoint is, where it is no new run: "" for a new one.
std::string what_else(const std::string& dir) {
  std::error_code unknown;
  const fs::path path = fs::path(dir + "/").lexically_normal().parent_path();
  const fs::path run = path.parent_path();
  const std::string name = path.filename();
  const bool in_run = !run.empty() && fs::is_directory(run / "ckpt", unknown);
  if (!fs::exists(path, unknown)) {
    const std::string near = in_run ? nearest(name, {"best", "ckpt"}) : "";
    return near.empty() ? "" : str("is not there; did you mean ", (run / near).string(), "?");
  }
  if (!fs::is_directory(path, unknown))
    return str("is a file; name the folder of a run",
               name.ends_with(".safetensors") ? ", or read weights by load_weights()" : "");
  if (in_run && (name == "logs" || name == "hf"))
    return str("is a part of the run ", run.string(), ": name the run");
  for (const auto& entry : fs::directory_iterator(path, unknown)) {
    const std::string file = entry.path().filename();
    if (file.ends_with(".safetensors") || file == kTensorIndex)
      return str("holds ", file,
                 ", which is no checkpoint of a run: weights alone are read by load_weights()");
    if (entry.is_directory(unknown) && fs::is_directory(entry.path() / "ckpt", unknown))
      return str("holds runs, as ", entry.path().string(), ": name one of them");
  }
  return "";
}

// The same on all ranks. UserError for what is no checkpoint and no new run.
NamedCheckpoints found_in(const std::string& dir, Group& world) {
  const std::string words = broadcast_text(world, together(world, [&] {
                                             const NamedCheckpoints named = named_checkpoints(dir);
                                             const std::string other =
                                                 named.kind == Kind::none ? what_else(dir) : "";
                                             if (!other.empty())
                                               throw UserError(str("[checkpoint] ", dir, " ", other));
                                             return str(static_cast<int>(named.kind), named.path);
                                           }));
  return {static_cast<Kind>(words[0] - '0'), words.substr(1)};
}

std::string parent_path(const std::string& fqn) { return fqn.substr(0, fqn.rfind('.') + 1); }

// Weights, and what their layers keep beside them where the source has it; by the state's specs alone. Not
// histories of float8's scales, which are of the run that wrote them.
std::vector<const Spec*> wanted_of(const State& state, const std::function<bool(const std::string&)>& has) {
  std::set<std::string> layers, histories;
  for (const Spec& spec : state.specs()) {
    if (spec.role == Role::parameter && !spec.adapter) layers.insert(parent_path(spec.fqn));
    histories.insert(spec.amax_history);
  }
  std::vector<const Spec*> out;
  for (const Spec& spec : state.specs())
    if ((spec.role == Role::parameter && !spec.adapter) ||
        (spec.role == Role::buffer && layers.count(parent_path(spec.fqn)) && has(spec.fqn) &&
         !histories.count(spec.fqn)))
      out.push_back(&spec);
  return out;
}
std::vector<NamedType> types_of_specs(const std::vector<const Spec*>& specs) {
  std::vector<NamedType> out;
  for (const Spec* spec : specs) out.push_back({spec->fqn, spec->dtype, spec->shape});
  return out;
}

// The names that are read. UserError where they do not fit.
std::vector<std::string> fitting(const State& state, const std::string& step, const std::string& path) {
  std::vector<NamedType> stored;
  std::string where = step;
  if (step.empty()) {
    const TensorFiles files(path);
    stored = files.types(), where = files.path();
  } else {
    for (const auto& tensor : read_manifest(step).tensors)
      stored.push_back({tensor.fqn, tensor.dtype, tensor.shape});
  }
  auto has = [&](const std::string& fqn) {
    return std::any_of(stored.begin(), stored.end(), [&](const NamedType& one) { return one.fqn == fqn; });
  };
  const auto wanted = types_of_specs(wanted_of(state, has));
  if (!step.empty())  // a checkpoint holds an optimizer, too
    std::erase_if(stored, [&](const NamedType& one) {
      return std::none_of(wanted.begin(), wanted.end(),
                          [&](const NamedType& other) { return other.fqn == one.fqn; });
    });
  const std::string text = misfit_text(stored, where, wanted, "the state", step.empty());
  if (!text.empty()) throw UserError("[load_weights] " + text);
  std::vector<std::string> out;
  for (const NamedType& one : wanted) out.push_back(one.fqn);
  return out;
}
}  // namespace

Checkpoint::Checkpoint(const std::string& dir, CheckpointOptions options) : dir_(dir), options_(options) {
  if (options_.every < 1)
    throw UserError(str("[checkpoint] ", dir, ": every is ", options_.every, "; it must be at least 1"));
}

int64_t Checkpoint::resume(State& state) {
  distributed::enter_pace(Pace::start);
  const NamedCheckpoints found = found_in(dir_, *state.mesh().world);
  state.allocate();
  if (found.kind == Kind::step) return load_checkpoint(found.path, state.arrays(), state.mesh()).step;
  if (found.kind != Kind::none)
    if (const auto loaded = load_latest(found.path, state.arrays(), state.mesh())) {
      if (found.kind == Kind::run && loaded->step > 0)
        logs::info(str("resumed from ", loaded->path, " (step ", loaded->step,
                       "); a loop that ends there has nothing left to do: more steps go on, another folder "
                       "begins anew"));
      return loaded->step;
    }
  state.materialize();
  return 0;
}

void Checkpoint::save(int64_t done, const State& state) {
  if (done % options_.every != 0) return;
  if (!state.has_values())
    throw UserError(str("[checkpoint] ", dir_, ": the state has no values yet, and nothing is saved of it: ",
                        "call resume() or materialize() first, or a step, which draws initial values"));
  if (replaying())
    throw UserError(str("[checkpoint] trainrun replay writes nothing, and ", dir_,
                        " is to be written at step ", done,
                        ": a loop of one's own keeps no rows to compare with; train() does, and its "
                        "steps are replayed"));
  distributed::enter_pace(Pace::start);
  const NamedCheckpoints found = found_in(dir_, *state.mesh().world);
  if (found.kind == Kind::folder || found.kind == Kind::step)
    throw UserError(str("[checkpoint] ", dir_,
                        " holds checkpoints that are read, and none is written beside "
                        "them: save into the folder of a run, as in Checkpoint(\"runs/next\")"));
  save_checkpoint(dir_ + "/ckpt", {done, Json::object(), "", Json::object()}, state.arrays(), state.mesh(),
                  options_.keep);
  if (state.mesh().world->rank() == 0) launcher::name_each_other(launcher::worker_place(), dir_);
}

void load_weights(State& state, const std::string& path) {
  Group& world = *state.mesh().world;
  const std::string step = broadcast_text(
      world, together(world, [&] {
        const std::string newest = newest_checkpoint(path);
        if (newest.empty() && !any_storage().exists(path))
          throw UserError(str("[load_weights] there is no ", path,
                              "; name a run, its best folder, a step folder, or safetensors files"));
        return newest;
      }));
  const auto names = together(world, [&] { return fitting(state, step, path); });
  auto load = [names, step, path](State& to) {
    std::vector<Array*> arrays;
    for (const auto& name : names) arrays.push_back(&to.array(name));
    if (step.empty())
      load_safetensors(path, arrays, to.mesh());
    else
      load_part(step, arrays, to.mesh());
    logs::info(str("initial weights from ", step.empty() ? path : step));
  };
  state.start_with(load);
  if (state.has_values())
    load(state);
  else if (state.allocated())
    state.materialize();  // what the weights leave has initial values, too
}

}  // namespace lockstep
