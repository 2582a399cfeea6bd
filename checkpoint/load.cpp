// Loading: loads one checkpoint, or the newest usable one; all ranks make the same decision.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "checkpoint/agreement.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/io/read_chunks.h"
#include "checkpoint/plan/fit.h"
#include "core/base/log.h"
#include "core/base/steady_seconds.h"
#include "core/files/remove_known.h"
#include "core/mesh/nonfinite.h"

namespace lockstep::checkpoint {

namespace {
void check_fit(const Manifest& manifest, const std::string& step_dir, const std::vector<Array*>& arrays) {
  std::vector<NamedType> stored;
  for (const auto& tensor : manifest.tensors) stored.push_back({tensor.fqn, tensor.dtype, tensor.shape});
  std::string text = misfit_text(stored, step_dir, types_of(arrays), "the model", false);
  if (!text.empty())
    throw UserError(
        text +
        "\n  the model of this run differs from the one that was saved: use its config, or "
        "another --name (with "
        "train.init_from=STEP-FOLDER, which takes the weights alone); --load.partial takes what "
        "both have alike\n  in a program: give another run=, and the weights that both have alike "
        "by ls.load_weights(state, \"" +
        step_dir + "\", partial=True)");
}

void warn_strays(Storage& storage, const std::string& step_dir, const Manifest& manifest) {
  if (storage.commit(step_dir) == Commit::manifest_last) return;  // files of a concurrent save
  for (const auto& entry : storage.list(step_dir))
    if (entry.name != kManifestName && !manifest.find_file(entry.name))
      logs::warn(str(step_dir, "/", entry.name, " is not part of the checkpoint and is ignored"));
}

// The arrays that the manifest has with the same type.
std::vector<Array*> alike(const Manifest& manifest, const std::string& step_dir,
                          const std::vector<Array*>& arrays, LeftOut& left) {
  left = {};
  std::vector<Array*> out;
  std::set<std::string> wanted;
  for (Array* array : arrays) {
    wanted.insert(array->fqn);
    const TensorRecord* stored = manifest.find(array->fqn);
    const std::string type = shape_text(array->dtype, array->shape);
    if (!stored)
      left.of_model.push_back(str(array->fqn, ' ', type));
    else if (stored->dtype != array->dtype || stored->shape != array->shape)
      left.other_type.push_back(str(array->fqn, ' ', shape_text(stored->dtype, stored->shape),
                                    " in the checkpoint, ", type, " in the model"));
    else
      out.push_back(array);
  }
  for (const auto& tensor : manifest.tensors)
    if (!wanted.count(tensor.fqn))
      left.of_checkpoint.push_back(str(tensor.fqn, ' ', shape_text(tensor.dtype, tensor.shape)));
  left.loaded = out.size();
  if (out.empty())
    throw UserError(str(step_dir,
                        " has no tensor that the model has, too, of one type; the first of the model is ",
                        arrays.empty() ? "none" : arrays[0]->fqn,
                        ": load.partial wants at least one; name the checkpoint of a model like this one"));
  return out;
}

// A checkpoint without update counts had one update per step.
void restore_updates(const Manifest& manifest, const std::vector<Array*>& arrays) {
  std::map<std::string_view, int64_t> updates;
  for (const auto& tensor : manifest.tensors)
    updates[tensor.fqn] = tensor.updates >= 0 ? tensor.updates : manifest.step;
  for (Array* array : arrays) array->updates = updates.at(array->fqn);
}

// The outcome is the same on all ranks; `out` is filled when it is ok. With `left`: of a part.
WorkOutcome try_load(const std::string& step_dir, std::vector<Array*> arrays, const LiveMesh& mesh,
                     Storage& storage, LoadedInfo& out, bool apart = false, LeftOut* left = nullptr) {
  Group& world = *mesh.world;
  const std::string manifest_path = step_dir + "/" + kManifestName;
  std::string text;
  WorkOutcome read =
      settle(world, world.rank() == 0 ? attempt([&] { text = load_manifest_text(storage, step_dir); })
                                      : WorkOutcome{});
  if (read.verdict != Verdict::ok) return read;
  text = broadcast_text(world,
                        // the same manifest on all ranks, even if a file system shows one of them an older
                        // one
                        text);
  Manifest manifest;
  double began = 0;
  WorkOutcome loaded = settle(world, attempt([&] {
                                manifest = read_manifest_text(text, step_dir);
                                if (left)
                                  arrays = alike(manifest, step_dir, arrays, *left);
                                else
                                  check_fit(manifest, step_dir, arrays);
                                if (world.rank() == 0 && !apart) {
                                  warn_strays(storage, step_dir, manifest);
                                  for (const auto& file : manifest.files)
                                    open_shard(storage, step_dir, file, manifest);
                                }
                                began = steady_seconds();
                                read_arrays(storage, step_dir, manifest, arrays);
                              }));
  const double read_in = steady_seconds() - began;
  if (loaded.verdict != Verdict::ok) return loaded;
  std::string hash = state_hash({arrays.begin(), arrays.end()}, mesh);
  logs::topic("checkpoint", str("read ", step_dir, " in ", read_in, " s, its state hash was made in ",
                                steady_seconds() - began - read_in, " s"));
  if (hash != manifest.state_hash && (!left || left->none()))
    return {Verdict::damaged, str(manifest_path, ": the state hash is ", manifest.state_hash,
                                  ", but the tensors give ", hash, ": they are not those that were saved")};
  restore_updates(manifest, arrays);
  out = {manifest.step, manifest.config, manifest.certificate, manifest.extra, hash, step_dir};
  return {};
}

// Earlier versions also saved values that are not finite. Collective.
std::string nonfinite_text(const std::string& step_dir, const std::vector<Array*>& arrays,
                           const LiveMesh& mesh) {
  auto bad = find_nonfinite({arrays.begin(), arrays.end()}, mesh);
  return bad ? str(step_dir, " holds values that are not finite: ", bad->text()) : "";
}

// Refuses links to steps. A run that skipped such a step would resume too early; one that continued from it
// would write and remove files next to a link of unknown origin. A dangling link is refused too if `latest`
// names it.
void refuse_linked(Storage& storage, const std::string& dir, const std::vector<StepFolder>& folders) {
  std::string link;
  if (const std::string latest = read_latest(storage, dir); !latest.empty() && is_link(dir + "/" + latest))
    link = dir + "/" + latest;
  for (const auto& folder : folders)
    if (link.empty() && folder.linked) link = folder.path;
  if (link.empty()) return;
  std::error_code failed;
  const std::string target = printable(std::filesystem::read_symlink(link, failed).string());
  throw UserError(str(link, " is a link to ", target,
                      ", and no run goes on from a checkpoint behind one: it may come from elsewhere. Move ",
                      target,
                      " back in its place; or remove the link, to go on without it; or start another "
                      "--name with train.init_from=",
                      link, ", which takes the weights alone"));
}

// Warns when `latest` names none of the folders.
void judge_latest(Storage& storage, const std::string& dir, const std::vector<StepFolder>& folders) {
  if (folders.empty()) return;
  std::string problem, latest = read_latest(storage, dir, &problem);
  bool found = latest.empty();
  if (!problem.empty()) logs::warn(str(problem, "; the newest whole checkpoint is taken"));
  for (const auto& folder : folders) found = found || folder.name == latest;
  if (!found)
    logs::warn(str(dir, "/latest names ", latest,
                   ", which is not there; the newest whole checkpoint is taken instead"));
}

// The step folders that rank 0 finds, the same on all ranks: newest first, within a folder by commit order.
std::vector<std::string> candidates(const std::vector<std::string>& dirs, Group& world, Storage& storage) {
  Json paths = Json::array();
  raise(settle(world, world.rank() != 0 ? WorkOutcome{} : attempt([&] {
                 std::vector<StepFolder> all;
                 for (const auto& dir : dirs) {
                   const auto folders = scan(storage, dir);
                   refuse_linked(storage, dir, folders);
                   judge_latest(storage, dir, folders);
                   std::vector<StepFolder> merged;
                   std::merge(all.begin(), all.end(), folders.begin(), folders.end(),
                              std::back_inserter(merged),
                              [](const StepFolder& a, const StepFolder& b) { return a.step > b.step; });
                   all = std::move(merged);
                 }
                 for (const auto& folder : all) paths.push_back(folder.path);
               })));
  return Json::parse(broadcast_text(world, paths.dump())).get<std::vector<std::string>>();
}
}  // namespace

LoadedInfo load_checkpoint(const std::string& step_dir, const std::vector<Array*>& arrays,
                           const LiveMesh& mesh, Storage& storage) {
  LoadedInfo out;
  raise(try_load(step_dir, arrays, mesh, storage, out));
  if (const std::string bad = nonfinite_text(step_dir, arrays, mesh); !bad.empty() && mesh.rank == 0)
    logs::warn(bad);
  return out;
}

std::optional<LoadedInfo> load_latest(const std::string& dir, const std::vector<Array*>& arrays,
                                      const LiveMesh& mesh, Storage& storage) {
  return load_newest({dir}, arrays, mesh, storage);
}

std::optional<LoadedInfo> load_newest(const std::vector<std::string>& dirs, const std::vector<Array*>& arrays,
                                      const LiveMesh& mesh, Storage& storage, const std::string& apart,
                                      LeftOut* left) {
  Group& world = *mesh.world;
  const std::string& dir = dirs.at(0);
  auto paths = candidates(dirs, world, storage);
  if (paths.empty()) return std::nullopt;
  std::vector<std::string> reasons;
  for (const auto& path : paths) {
    LoadedInfo out;
    WorkOutcome tried = try_load(path, arrays, mesh, storage, out, parent_folder(path) == apart, left);
    if (tried.verdict == Verdict::ok)
      if (std::string bad = nonfinite_text(path, arrays, mesh); !bad.empty()) tried = {Verdict::damaged, bad};
    if (tried.verdict == Verdict::ok) {
      if (!reasons.empty() && world.rank() == 0) {
        for (size_t i = 0; i < reasons.size(); ++i)
          logs::warn(str(last_part(paths[i]), " is damaged: ", reasons[i]));
        logs::warn(str("resuming from ", path, ", the newest whole checkpoint (step ", out.step, ")"));
      }
      return out;
    }
    if (tried.verdict != Verdict::damaged) raise(tried);
    reasons.push_back(tried.text);
  }
  const bool first_is_empty = std::none_of(
      paths.begin(), paths.end(), [&](const std::string& path) { return parent_folder(path) == dir; });
  if (first_is_empty) {
    if (world.rank() == 0)
      for (const auto& reason : reasons) logs::warn(str(reason, "; it is not used"));
    return std::nullopt;
  }
  throw UserError(str(dir, " holds ", paths.size(), " checkpoint", paths.size() == 1 ? "" : "s",
                      " and none is whole; nothing was changed:\n  ", join(reasons, "\n  "),
                      "\n  restore the files, or start afresh under another --name"));
}

}  // namespace lockstep::checkpoint
