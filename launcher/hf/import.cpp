// Imports a Hugging Face model as a run, or as the initial weights of one.
#include "launcher/hf/import.h"

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/initial_weights.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/files/private_file.h"
#include "core/files/remove_known.h"
#include "core/files/unfinished.h"
#include "core/mesh/together.h"
#include "core/models/family.h"
#include "core/reading/json_text.h"
#include "launcher/config/run_names.h"
#include "launcher/config/stored.h"
#include "launcher/hf/config.h"
#include "launcher/hf/folder.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/trainer/model.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher::hf {

namespace fs = std::filesystem;

namespace {
// A rotary model accepts any context; the longest current ones would not fit in memory with the gradients.
constexpr int64_t kContext = 2048;

HfFolder folder_of(const std::string& path) {
  std::error_code unknown;
  if (!fs::exists(path, unknown))
    throw UserError(str("no file or folder ", path,
                        "; import-hf reads what is on this machine and downloads nothing: name the folder of "
                        "a model, as `hf download` or save_pretrained leaves it"));
  if (auto found = open_folder(path)) return *found;
  throw UserError(str(path,
                      ": no config.json with a model_type lies there, so that the model is not known; name "
                      "the folder that transformers wrote (weights whose names are FQNs are read by "
                      "train.init_from)"));
}

// The run's config before overrides: the model, and defaults for fine-tuning. With a tokenizer.json or
// .model, the data are text, read with the run's own copy in `carried`.
Json first_config(const HfModel& model, const std::string& tokenizer, std::ostream& out) {
  Json options = complete(*model.family, model.options, 0);
  const bool rotary = std::any_of(model.family->keys.begin(), model.family->keys.end(),
                                  [](const KeyRule& rule) { return rule.role == KeyRole::context; });
  if (rotary && options["context"].is_number_integer() && options["context"] > kContext) {
    out << "model.context is " << kContext << " of " << options["context"]
        << " tokens: a sequence of training; --model.context=N takes another length\n";
    options["context"] = kContext;
  }
  Json section = {{"kind", model.family->kind}};
  section.update(options);
  Json data = {{"kind", "arrays"}};
  if (options.contains("vocab") && !tokenizer.empty())
    data = {{"kind", "text"}, {"tokenizer", tokenizer}};
  else if (options.contains("vocab"))
    data = {
        {"kind", "tokens"},
        {"dtype", options["vocab"].is_number_integer() && options["vocab"] > 65536 ? "uint32" : "uint16"}};
  if (model.family->kind == "bert_classifier") {
    data = {{"kind", tokenizer.empty() ? "arrays" : "jsonl"}};
    if (!tokenizer.empty()) data["tokenizer"] = tokenizer;
    if (!tokenizer.empty() && !model.classes.empty()) data["classes"] = model.classes;
  }
  return {{"model", section}, {"data", data}, {"optim", {{"lr", 2e-5}, {"weight_decay", 0.01}}}};
}

// UserError when the config's model is a different function of the weights than config.json's.
void check_same(const HfModel& theirs, const RunConfig& config, const std::string& where, int64_t hidden) {
  if (config.model.kind != theirs.family->kind)
    throw UserError(str(where, " describes a ", theirs.family->model_type, ", which is model.kind ",
                        theirs.family->kind, ", and model.kind is ", config.model.kind));
  const Json ours = complete(*theirs.family, model_options(config), hidden);
  std::vector<std::string> lines = differences(theirs, ours, where);
  if (!theirs.family->version.empty() && ours["version"].get<std::string>() != theirs.family->version)
    lines.push_back(str("model_type is \"", theirs.family->model_type, "\" in ", where,
                        " and model.version is ", ours["version"].dump(),
                        "; set --model.version=", theirs.family->version));
  if (!lines.empty())
    throw UserError(str("the model of the config is not that of the weights:\n  ", join(lines, "\n  ")));
}

int64_t hidden_of(const HfFamily& family, const std::vector<Array*>& parameters) {
  for (const Array* array : parameters)
    if (array->fqn == family.hidden) return array->shape[0];
  return 0;
}

// What an import may write beside the weights.
std::vector<std::string> carried_paths(const std::string& run) {
  std::vector<std::string> out = {carried_in(run) + "/config.json"};
  for (std::string_view file : carried_files()) out.push_back(str(carried_in(run), "/", file));
  return out;
}

void refuse_begun(const std::string& run) {
  for (const auto& found : checkpoint::list_checkpoints(run + "/ckpt"))
    throw UserError(
        str(run, " has checkpoints already (", found.path, "); choose another --name, or remove the folder"));
  refuse_foreign_config(run + "/config.json", "choose another --name");
  if (const std::string carried = carried_in(run); is_link(carried))
    throw UserError(
        str(carried, " is a link, and nothing is written behind one; remove it, or choose another --name"));
  for (const std::string& path : carried_paths(run))
    if (std::error_code unknown; fs::exists(fs::symlink_status(path, unknown)))
      throw UserError(str(path,
                          " is there already, and the import would write it: it is left as it is; move ",
                          carried_in(run), " away, or choose another --name"));
}

// The value of a key in the overrides, "" if none.
std::string said_of(const ImportRequest& request, std::string_view path) {
  const auto named = std::find_if(request.overrides.begin(), request.overrides.end(),
                                  [&](const Override& one) { return one.path == path; });
  if (named == request.overrides.end()) return "";
  const Json quoted = bounded_json(named->value);
  return quoted.is_string() ? quoted.get<std::string>() : named->value;
}

RunConfig config_of(const ImportRequest& request, const HfFolder& folder, const HfModel& model,
                    std::ostream& out) {
  const std::string name = said_of(request, "name");
  if (name.empty())
    throw UserError("import-hf: no name is given; --name=NAME names the run, which is written to runs/NAME");
  const bool reads_text =
      fs::exists(folder.folder + "/tokenizer.json") || fs::exists(folder.folder + "/tokenizer.model");
  const std::string carried = carried_in("runs/" + name);
  return parse_config(first_config(model, reads_text ? carried : "", out).dump(), folder.config_path,
                      request.overrides, DataPaths::may_be_empty);
}
// A disk that is full is no peer's failure, which a launcher would start again.
checkpoint::SavedInfo save(const std::string& folder, const RunConfig& config, const State& state) try {
  return checkpoint::save_checkpoint(folder, {0, config_json(config), "", Json::object()}, state.arrays(),
                                     state.mesh(), 1);
} catch (const checkpoint::NotSaved& error) { throw UserError(error.what()); }

// A name is that of a run only with runs/ before it: said, so that nobody waits for "NAME" to be found there.
// An object store says itself what it has.
void refuse_missing(const std::string& path) {
  std::error_code unknown;
  if (checkpoint::any_storage().commit(path) != checkpoint::Commit::rename ||
      fs::exists(fs::symlink_status(path, unknown)))
    return;
  throw UserError(str("train.init_from is \"", path,
                      "\", which is neither a file nor a folder, nor a run in the folder runs",
                      runs_instead_of(path)));
}
}  // namespace

void import_run(const ImportRequest& request, std::ostream& out) {
  const HfFolder folder = folder_of(request.path);
  const HfModel model =
      model_of(folder.config, folder.config_path, request.accept, said_of(request, "model.kind"));
  const RunConfig config = config_of(request, folder, model, out);
  const std::string run = "runs/" + config.name;
  refuse_begun(run);

  RunConfig of_state = config;  // weights and moments are fp32 on any device
  if (of_state.train.precision == "tf32") of_state.train.precision = "fp32";
  State state(solo_mesh(), static_cast<uint64_t>(config.train.seed));
  Trainer trainer(of_state, 1, state);
  state.materialize();
  const std::vector<Array*> parameters = weights_of(state);
  check_same(model, config, folder.config_path, hidden_of(*model.family, parameters));
  const auto told = load_weights(*model.family, folder.tensors, parameters, state.mesh(), request.choices);

  std::error_code unknown;
  const bool there = fs::exists(run, unknown);
  const RunFolder held(run);
  refuse_begun(run);  // checked again, now under the lock
  Unfinished made;
  if (!there) made.add(Unfinished::Kind::tree, run);
  const std::string carried = carried_in(run);
  if (!fs::exists(carried, unknown)) made.add(Unfinished::Kind::entry, carried);
  for (const std::string& path : carried_paths(run)) made.add(Unfinished::Kind::entry, path);
  make_private_folders(carried);  // that it failed is told by the write
  write_whole(carried + "/config.json", folder.config.dump(2) + "\n");
  carry_files(folder.folder, carried);
  const auto saved = save(run + "/ckpt", config, state);
  write_whole(run + "/config.json", config_text(config));
  made.keep();

  int64_t elements = 0;
  for (const Array* array : parameters) elements += numel(array->shape);
  for (const auto& lines : {model.told, told})
    for (const auto& line : lines) out << line << "\n";
  out << model.family->model_type << " of " << elements << " parameters -> " << saved.path << "\n"
      << "trainrun " << run << "/config.json" << (config.data.paths.empty() ? " --data.paths=..." : "")
      << " goes on from it\n";
}

void load_initial(const std::string& path, const RunConfig& config, State& state) {
  const LiveMesh& mesh = state.mesh();
  const std::string step =
      broadcast_text(*mesh.world, together(*mesh.world, [&] { return checkpoint::newest_checkpoint(path); }));
  const std::vector<Array*> parameters = weights_of(state);
  const auto found = together(*mesh.world, [&]() -> std::pair<std::optional<HfFolder>, HfModel> {
    if (!step.empty()) return {};
    refuse_missing(path);
    std::error_code unknown;
    auto folder = fs::is_directory(path, unknown) ? open_folder(path) : std::nullopt;
    if (!folder) return {};
    HfModel model = model_of(folder->config, folder->config_path, {}, config.model.kind);
    check_same(model, config, folder->config_path, hidden_of(*model.family, parameters));
    return {folder, model};
  });
  const auto told = found.first ? load_weights(*found.second.family, found.first->tensors, parameters, mesh)
                                : together(*mesh.world, [&] {
                                    return checkpoint::InitialWeights(
                                        {step.empty() ? path : step, !step.empty()}, state, {}, "the model");
                                  }).load(state);
  logs::info(str("initial weights from ", path));
  for (const auto& line : told) logs::info(line);
}

}  // namespace lockstep::launcher::hf
