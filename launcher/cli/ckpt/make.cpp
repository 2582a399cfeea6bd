// trainrun ckpt prune | reshard | average: removes checkpoints, and makes checkpoints from others.
#include <algorithm>
#include <memory>
#include <ostream>

#include "checkpoint/tools/prune.h"
#include "checkpoint/tools/transform.h"
#include "core/base/error.h"
#include "core/reading/json_text.h"
#include "launcher/cli/ckpt/commands.h"
#include "launcher/cli/ckpt/paths.h"
#include "launcher/config/config.h"
#include "launcher/config/run_names.h"
#include "launcher/machine/run_device.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher::cli {

using namespace checkpoint;

namespace {
std::string bytes_in_words(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

// OUT/ckpt, if OUT is a run or does not exist yet.
std::string ckpt_of_out(const std::string& out) {
  if (const std::string why = no_folder_path(out, "OUT"); !why.empty()) throw UserError(why);
  Storage& storage = any_storage();
  if (names_a_step(out) || storage.exists(out + "/" + kManifestName))
    throw UserError(str("OUT is ", out, "; name a run, as in runs/NAME: its ckpt/step-N is written"));
  if (storage.exists(out) && !is_folder(out))
    throw UserError(str("OUT is ", out, ", which is a file; name a run, as in runs/NAME"));
  refuse_linked_run(out);
  return out.substr(0, out.find_last_not_of('/') + 1) + "/ckpt";
}

// "{"dp_shard": 2, "tp": 2}" as a mesh.
Mesh mesh_of(const std::string& text) {
  const Json json = bounded_json(text);
  Mesh out{{}, {}};
  if (json.is_object())
    for (const auto& [name, size] : json.items()) {
      if (!size.is_number_integer() || size.get<int64_t>() < 1)
        throw UserError(str("--mesh: ", name, " is ", size.dump(), "; a mesh dim's size is 1 or more"));
      if (size.get<int64_t>() > kMostRanks)
        throw UserError(str("--mesh: ", name, " is ", size.dump(), "; at most ", kMostRanks));
      out.dim_names.push_back(name), out.shape.push_back(size.get<int64_t>());
    }
  if (out.shape.empty())
    throw UserError(str("--mesh is ", shortened(printable(text), 80),
                        "; write an object of sizes, as in '{\"dp_shard\": 2, \"tp\": 2}'"));
  try {
    return resolve_mesh(out.shape, out.dim_names, numel(out.shape));
  } catch (const UserError& error) { throw UserError(str("--mesh: ", error.what())); }
}

// The layout of each tensor in a run of this config on other ranks: the model is recorded and placed, but not
// allocated.
class ModelLayouts {
 public:
  ModelLayouts(RunConfig config, const Mesh& words)
      : config_(std::move(config)),
        found_(found_target(config_.train.device, words.size())),
        state_(paper(words), 0),
        trainer_(config_, words.size(), state_, found_.target) {}
  Layout of(const TensorRecord& tensor) const { return state_.layout(tensor.fqn); }

 private:
  static LiveMesh paper(const Mesh& words) {
    LiveMesh mesh = solo_mesh();
    mesh.words = words;
    return mesh;
  }
  RunConfig config_;
  FoundTarget found_;
  State state_;
  Trainer trainer_;
};

// Why the config's model is not used; "": it is.
std::string not_asked(const Json& config, const CkptReshardArguments& arguments) {
  if (arguments.by_rows) return "--by-rows";
  if (!config.is_object() || config.empty()) return "a program saved it, whose model no config tells";
  const auto section = [&](const char* name) {
    return config.contains(name) && config[name].is_object() ? config[name] : Json::object();
  };
  const Json libraries = section("compile").value("load_ops", Json::array());
  if (!libraries.empty()) return "its config names libraries of ops (compile.load_ops), which are not opened";
  const Json device = section("train").value("device", Json(""));
  if (device.is_string() && device.get<std::string>().starts_with("plugin:"))
    return "its config names a plugin, which is not opened";
  return "";
}

struct Planned {
  Mesh mesh;
  std::string why_rows;
  std::unique_ptr<ModelLayouts> model;  // null: by rows
};
Planned planned(const HeldStep& source, const CkptReshardArguments& arguments) {
  Planned out;
  out.why_rows = not_asked(source.manifest.config, arguments);
  const bool named = !arguments.mesh.empty();
  if (!named && arguments.ranks < 1) throw UserError("reshard: give --ranks N or --mesh JSON");
  if (named) out.mesh = mesh_of(arguments.mesh);
  if (const int64_t ranks = named ? out.mesh.size() : arguments.ranks; ranks > kMostRanks)
    throw UserError(str("reshard: ", named ? "--mesh names " : "--ranks is ", ranks, named ? " ranks" : "",
                        "; at most ", kMostRanks));
  if (!out.why_rows.empty()) {
    if (!named) out.mesh = Mesh{{arguments.ranks}, {"dp_shard"}};
    return out;
  }
  RunConfig config = parse_config(source.manifest.config.dump(), source.path + "/" + kManifestName, {},
                                  DataPaths::may_be_empty);
  if (named) config.mesh.shape = out.mesh.shape, config.mesh.dim_names = out.mesh.dim_names;
  const int64_t ranks = named ? out.mesh.size() : arguments.ranks;
  if (config.mesh.ranks_per_node && ranks % config.mesh.ranks_per_node) config.mesh.ranks_per_node = 0;
  out.mesh = validate(config, ranks);
  out.model = std::make_unique<ModelLayouts>(std::move(config), out.mesh);
  return out;
}
}  // namespace

int ckpt_prune(const CkptPruneArguments& arguments, std::ostream& out) {
  if (names_a_step(arguments.path))
    throw UserError(
        str("prune: ", arguments.path, " is one checkpoint; name its run, and say how many stay"));
  const std::string dir = checkpoint_folder(arguments.path);
  if (!arguments.dry_run) refuse_linked_run(run_or_path(arguments.path));
  if (dir != arguments.path && checkpoints_of_run(arguments.path) == dir &&
      any_storage().exists(arguments.path + "/" + kElsewhere))
    throw UserError(str("prune: ", arguments.path, "/", kElsewhere,
                        " says that the run's checkpoints are in ", dir,
                        "; name that folder itself, since nothing is removed on a file's word"));
  if (const std::string said = word_of_program(run_or_path(arguments.path)); !said.empty())
    throw UserError(str("prune: ", said, " says that the program's checkpoints are in ", dir,
                        "; name that folder itself, since nothing is removed on a file's word"));
  const auto steps = prune_checkpoints(dir, {static_cast<int>(std::min<int64_t>(arguments.keep, 1 << 30)),
                                             arguments.every, arguments.dry_run});
  std::vector<std::vector<std::string>> rows;
  int64_t freed = 0, removed = 0;
  for (const auto& one : steps) {
    rows.push_back({one.path, bytes_in_words(one.bytes),
                    !one.removed        ? "stays: " + one.why
                    : arguments.dry_run ? "would be removed"
                                        : "removed"});
    if (one.removed) freed += one.bytes, ++removed;
  }
  print_cells(out, rows);
  out << removed << " of " << steps.size() << (arguments.dry_run ? " would be" : "") << " removed, "
      << bytes_in_words(freed) << (arguments.dry_run ? " would be freed\n" : " freed\n");
  return kExitOk;
}

int ckpt_reshard(const CkptReshardArguments& arguments, std::ostream& out) {
  const std::string dir = ckpt_of_out(arguments.out);
  const HeldStep source = hold_sound_step(arguments.source);
  const Planned plan = planned(source, arguments);
  const WrittenCopy made = reshard_checkpoint(
      source.path, dir, plan.mesh,
      [&](const TensorRecord& tensor) {
        return plan.model ? plan.model->of(tensor) : layout_by_rows(tensor, plan.mesh);
      },
      *source.files, any_shared_storage());
  out << "wrote " << made.path << ": " << made.files << (made.files == 1 ? " file, " : " files, ")
      << bytes_in_words(made.bytes) << ", as " << text(plan.mesh) << " from " << text(source.manifest.mesh)
      << "\ntensors lie "
      << (plan.model ? "as its config's model has them on these ranks"
                     : str("by rows of their first dim: ", plan.why_rows))
      << "\nstate hash " << made.state_hash << ", as in " << source.path << "\n";
  return kExitOk;
}

int ckpt_average(const CkptAverageArguments& arguments, std::ostream& out) {
  if (arguments.paths.size() < 3)
    throw UserError(str("average takes two checkpoints or more, and OUT behind them; ",
                        arguments.paths.size(),
                        arguments.paths.size() == 1 ? " path is given" : " paths are given"));
  const std::string dir = ckpt_of_out(arguments.paths.back());
  std::vector<std::string> steps;
  for (size_t i = 0; i + 1 < arguments.paths.size(); ++i)
    steps.push_back(hold_sound_step(arguments.paths[i]).path);
  const Averaged made = average_checkpoints(steps, dir, any_storage(), any_shared_storage());
  out << "wrote " << made.written.path << ": the mean of " << made.weights << " tensors over " << steps.size()
      << " checkpoints, " << bytes_in_words(made.written.bytes) << ", state hash " << made.written.state_hash
      << "\n";
  for (const auto& step : steps) out << "  " << step << "\n";
  if (!made.as_last.empty())
    out << "of integers those of " << steps.back() << ": " << shortened(join(made.as_last, ", "), 300)
        << "\n";
  if (!made.left_out.empty())
    out << "left out, of the optimizer: " << made.left_out.size() << " tensors, as " << made.left_out[0]
        << "; generate, export-hf and train.init_from take the result\n";
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
