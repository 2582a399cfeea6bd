// Checkpoints of a user program, and its initial weights.
#include <algorithm>
#include <filesystem>

#include "checkpoint/initial_weights.h"
#include "checkpoint/tensor_files.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/mesh/fingerprint.h"
#include "core/mesh/together.h"
#include "distributed/watch/flight_record.h"
#include "launcher/api/option_words.h"
#include "launcher/api/program.h"
#include "launcher/api/replayed_run.h"
#include "launcher/supervise/folders/program.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep {

using namespace checkpoint;

namespace fs = std::filesystem;

namespace {
using Kind = NamedCheckpoints::Kind;

// Describes a folder without a checkpoint that is not a new run; "" for a new run.
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

// The same on all ranks. UserError for a folder that is neither a checkpoint nor a new run.
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
}  // namespace

Checkpoint::Checkpoint(const std::string& dir, CheckpointOptions options) : dir_(dir), options_(options) {
  refuse_no_folder("[checkpoint] dir", dir_);
  if (options_.every < 1)
    throw UserError(str("[checkpoint] ", dir, ": every is ", options_.every, "; it must be at least 1"));
}

namespace {
// The same matrices with another scale are a different function.
void tell_scale(const LoadedInfo& loaded, const State& state) {
  const Json was = loaded.extra.is_object() ? loaded.extra.value(kAdapters, Json()) : Json(),
             is = adapters_of(state);
  const bool known = was.is_object() && was.contains("scale") && is.is_object();
  if (!known || was["scale"] == is["scale"] || state.mesh().rank != 0) return;
  logs::warn(str("the adapters of ", loaded.path, " were scaled by alpha / rank = ", was["scale"].dump(),
                 ", and those of this program are by ", is["scale"].dump(),
                 ": it computes something else of the same weights; give lora() the alpha that they had"));
}
}  // namespace

int64_t Checkpoint::resume(State& state) {
  distributed::enter_pace(Pace::start);
  const NamedCheckpoints found = found_in(dir_, *state.mesh().world);
  state.allocate();
  if (found.kind == Kind::step) {
    const LoadedInfo loaded = load_checkpoint(found.path, state.arrays(), state.mesh());
    tell_scale(loaded, state);
    return loaded.step;
  }
  if (found.kind != Kind::none)
    if (const auto loaded = load_latest(found.path, state.arrays(), state.mesh())) {
      tell_scale(*loaded, state);
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
  Json extra = Json::object();
  if (const Json adapters = adapters_of(state); !adapters.is_null()) extra[kAdapters] = adapters;
  save_checkpoint(dir_ + "/ckpt", {done, Json::object(), "", extra}, state.arrays(), state.mesh(),
                  options_.keep);
  if (state.mesh().world->rank() == 0) launcher::name_each_other(launcher::worker_place(), dir_);
}

namespace {
// Hashes files that each rank reads itself: their sizes, and up to a quarter of a GiB of their bytes in
// evenly spaced blocks.
FingerprintPart files_part(const std::string& path) {
  constexpr int64_t kRead = int64_t{1} << 28, kBlock = int64_t{1} << 20;
  FingerprintPart part{
      "set of weights", {}, "every rank loads a part of the same weights: give all ranks the same files"};
  const TensorFiles found(path);
  const auto most = std::max<int64_t>(1, kRead / kBlock / static_cast<int64_t>(found.files().size()));
  std::vector<std::byte> block(kBlock);
  for (size_t f = 0; f < found.files().size(); ++f) {
    const auto file = any_storage().open(found.files()[f]);
    const int64_t bytes = file->bytes(), blocks = std::min(most, (bytes + kBlock - 1) / kBlock);
    uint64_t hash = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t at = blocks < 2 ? 0 : (bytes - kBlock) * b / (blocks - 1),
                    count = std::min(kBlock, bytes - at);
      file->read(at, block.data(), static_cast<size_t>(count));
      hash = hash64(block.data(), static_cast<size_t>(count), hash);
    }
    part.lines.push_back({str("file ", f + 1), str(last_part(found.files()[f]), ", ", bytes,
                                                   " bytes, fingerprint ", hash_hex(&hash, sizeof hash))});
  }
  return part;
}
}  // namespace

void load_weights(State& state, const std::string& path, const WeightOptions& options) {
  Group& world = *state.mesh().world;
  const std::string step = broadcast_text(
      world, together(world, [&] {
        if (trim(path).empty())
          throw UserError(str("[load_weights] path is \"", path,
                              "\"; it names a run, as in \"runs/mine\", its best "
                              "folder, a step folder, or safetensors files"));
        const std::string newest = newest_checkpoint(path);
        if (newest.empty() && !any_storage().exists(path))
          throw UserError(str("[load_weights] there is no ", path,
                              "; name a run, its best folder, a step folder, or safetensors files"));
        return newest;
      }));
  const std::string from = step.empty() ? path : step;
  const auto weights = together(world, [&] {
    try {
      return InitialWeights({from, !step.empty()}, state, {options.at, options.partial}, "the state");
    } catch (const UserError& error) { throw UserError(str("[load_weights] ", error.what())); }
  });
  if (step.empty() && world.size() > 1)
    compare(world, "where load_weights() is called", {together(world, [&] { return files_part(from); })});
  auto load = [weights, from](State& to) {
    const auto told = weights.load(to);
    logs::info(str("initial weights from ", from));
    for (const auto& line : told) logs::info(line);
  };
  state.start_with(load, {weights.names().begin(), weights.names().end()});
  if (state.has_values())
    load(state);
  else if (state.allocated())
    state.materialize();  // tensors not loaded get initial values
}

}  // namespace lockstep
