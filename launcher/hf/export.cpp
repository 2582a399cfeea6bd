// Exports a checkpoint to Hugging Face's format: tensor files and the JSON files for transformers.
#include "launcher/hf/export.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/initial_weights.h"
#include "core/base/error.h"
#include "core/files/linked_file.h"
#include "core/files/plain_file.h"
#include "core/files/unfinished.h"
#include "core/models/family.h"
#include "core/nn/lora.h"
#include "launcher/config/config.h"
#include "launcher/config/run_names.h"
#include "launcher/hf/adapters.h"
#include "launcher/hf/chat_template.h"
#include "launcher/hf/config.h"
#include "launcher/hf/folder.h"
#include "launcher/trainer/model.h"

namespace lockstep::launcher::hf {

using namespace checkpoint;

namespace fs = std::filesystem;

namespace {
struct Shard {
  std::string file;
  std::vector<Outgoing> tensors;
  int64_t bytes = 0;
};

// A named checkpoint, and its run, which has the files of its import.
struct Source {
  std::string run, step;
};

std::string parent_of(const std::string& path) { return fs::path(path).parent_path().string(); }

Source chosen(const NamedCheckpoints& named, int64_t step) {
  const auto found = list_checkpoints(named.path);
  std::vector<std::string> steps;
  for (const auto& one : found) {
    steps.push_back(str(one.step));
    if (one.step == step) return {parent_of(named.path), one.path};
  }
  if (step >= 0 || found.empty())
    throw UserError(str(named.path, " has no checkpoint", step >= 0 ? str(" of step ", step) : "",
                        steps.empty() ? "" : "; it has steps ", join(steps, ", ")));
  const auto* newest = checkpoint::newest_of(found);
  if (newest) checkpoint::tell_passed_over(found, *newest);
  return {parent_of(named.path), newest ? newest->path : found.back().path};
}

Source source_of(const std::string& run, int64_t step) {
  using Kind = NamedCheckpoints::Kind;
  for (const std::string& path : {run, "runs/" + run}) {
    const NamedCheckpoints named = named_checkpoints(path);
    if (named.kind == Kind::none) continue;
    if (named.kind != Kind::step) return chosen(named, step);
    if (const int64_t is = read_manifest(named.path).step; step >= 0 && step != is)
      throw UserError(str("--step is ", step, ", and ", named.path, " is the checkpoint of step ", is,
                          "; leave one of them out"));
    return {parent_of(parent_of(named.path)), named.path};
  }
  throw UserError(
      str(run, " is no run: there is neither ", run, "/ckpt",
          run.find('/') == std::string::npos ? str(" nor runs/", run, "/ckpt") : " nor a step in it",
          "; export-hf takes runs/NAME, runs/NAME/best or a step folder", runs_instead_of(run)));
}

DType dtype_of(const std::string& word) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    if (word == name(dtype)) return dtype;
  throw UserError(str("--dtype is \"", word, "\"; it must be f32, bf16 or f16"));
}
std::string word_of(DType dtype) {
  return dtype == DType::f32 ? "float32" : dtype == DType::bf16 ? "bfloat16" : "float16";
}

// The initially empty folder of an export and its files: after a failure they are removed.
class MadeFolder {
 public:
  explicit MadeFolder(const std::string& folder) : folder_(folder) {
    refuse_files_in(folder);
    std::error_code unknown;
    if (!fs::exists(folder, unknown)) made_.add(Unfinished::Kind::entry, folder);
    fs::create_directories(folder);
  }
  std::string file(std::string_view name) {
    const std::string path = str(folder_, "/", name);
    made_.add(Unfinished::Kind::entry, path);
    return path;
  }
  void keep() { made_.keep(); }

 private:
  static void refuse_files_in(const std::string& folder);
  const std::string folder_;
  Unfinished made_;
};

void MadeFolder::refuse_files_in(const std::string& folder) {
  std::error_code unknown;
  if (!fs::exists(folder, unknown)) return;
  if (!fs::is_directory(folder, unknown) || !fs::is_empty(folder, unknown))
    throw UserError(str(folder, " is there already and is no empty folder; name another one"));
}

// Files of at most `most` bytes of tensors, in the order of the model.
std::vector<Shard> shards_of(const std::vector<Outgoing>& tensors, int64_t most) {
  std::vector<Shard> out;
  for (const auto& tensor : tensors) {
    const int64_t bytes = bytes_of(tensor.header.dtype, tensor.header.shape);
    if (out.empty() || out.back().bytes + bytes > most) out.emplace_back();
    out.back().tensors.push_back(tensor);
    out.back().bytes += bytes;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    char file[64];
    std::snprintf(file, sizeof file, "model-%05zu-of-%05zu.safetensors", i + 1, out.size());
    out[i].file = out.size() == 1 ? kTensorFile : file;
  }
  return out;
}

Json index_of(const std::vector<Shard>& shards) {
  int64_t bytes = 0, elements = 0;
  std::map<std::string, std::string> files;
  for (const auto& shard : shards) {
    bytes += shard.bytes;
    for (const auto& tensor : shard.tensors) {
      files[tensor.header.name] = shard.file;
      elements += numel(tensor.header.shape);
    }
  }
  return {{"metadata", {{"total_parameters", elements}, {"total_size", bytes}}}, {"weight_map", files}};
}

Json generation_of(const Json& config) {
  Json out = {{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (config.contains(key) && !config[key].is_null()) out[key] = config[key];
  return out;
}

// Where the files of a model lie that go with a run's: its own hf/, else the folder of the tokenizer that its
// data was read with, as the hf/ of the run that it began from. "": there is none.
std::string carried_for(const std::string& run, const RunConfig& config) {
  if (const std::string own = carried_in(run); fs::is_directory(own)) {
    refuse_linked_away(own, run);
    return own;
  }
  std::error_code unknown;
  const std::string& named = config.data.tokenizer;
  if (named == "bytes" || !fs::exists(named, unknown)) return "";
  if (fs::is_directory(named, unknown)) return named;
  const auto files = carried_files();  // beside a file of another name may lie another tokenizer
  if (std::find(files.begin(), files.end(), fs::path(named).filename().string()) == files.end()) return "";
  return parent_of(named).empty() ? "." : parent_of(named);
}

// That of an import; a folder of somebody's tokenizer may have one of another model.
Json carried_config(const std::string& folder) {
  const std::string path = folder + "/config.json", run = parent_of(folder);
  std::string text, why;
  std::error_code unknown;
  const bool of_run = fs::is_directory(run + "/ckpt", unknown) || fs::is_directory(run + "/best", unknown);
  if (carried_in(run) != folder || !of_run || !fs::exists(path, unknown)) return {};
  refuse_linked_away(path, run);
  if (!read_plain(path, text, why, int64_t{1} << 24)) throw UserError(str("cannot read ", path, ": ", why));
  Json out = config_json(text, path);
  if (!out.is_object())
    throw UserError(
        str(path, " is no JSON object; remove it, and the export says what follows from the run"));
  return out;
}

// The option `version` of a family that has one.
std::string version_of(const RunConfig& config) {
  const Json given = model_options(config);
  for (const ConfigKey& key : models::family(config.model.kind).keys())
    if (key.path == "version") return given.value("version", key.fallback).get<std::string>();
  return "";
}

// An open checkpoint, and the model of its config.
class Held {
 public:
  Held(const std::string& step)
      : step_(step),
        files_(hold_checkpoint(step)),  // stays readable even if its run removes it
        manifest_(read_manifest(step, *files_)),
        config_(parse_config(manifest_.config.dump(), step + "/manifest.json", {}, DataPaths::may_be_empty)),
        state_(solo_mesh(), 0) {
    build_model(config_, state_);
  }
  const RunConfig& config() const { return config_; }
  const State& state() const { return state_; }
  // The template of the conversations it was trained on; null: none.
  Json chat_template() const {
    return manifest_.extra.is_object() ? manifest_.extra.value("chat_template", Json()) : Json();
  }
  // Class names from the config, else those that the run found in its data.
  std::vector<std::string> classes() const {
    if (!config_.data.classes.empty() || !manifest_.extra.is_object()) return config_.data.classes;
    const Json found = manifest_.extra.value("classes", Json::array());
    std::vector<std::string> out;
    for (const Json& name : found)
      if (name.is_string()) out.push_back(name);
    return static_cast<int64_t>(out.size()) == config_.model.integer("classes") ? out
                                                                                : std::vector<std::string>();
  }
  // Caches the last tensor, because its parts are requested one after another.
  Array read(const std::string& fqn) {
    if (kept_.fqn != fqn) kept_ = read_tensor(step_, fqn, *files_);
    return kept_;
  }
  Array merged(const Spec& spec) {
    if (!spec.low_rank) return read(spec.fqn);
    if (merged_.fqn == spec.fqn) return merged_;
    merged_ = read_tensor(step_, spec.fqn, *files_);
    merge_adapter(merged_, read(spec.low_rank->a.fqn()), read(spec.low_rank->b.fqn()), spec.low_rank->scale);
    return merged_;
  }

 private:
  std::string step_;
  std::unique_ptr<Storage> files_;
  Manifest manifest_;
  RunConfig config_;
  State state_;
  Array kept_, merged_;
};

// The model's weights by the family table, and the rows of the MLP.
struct Named {
  std::vector<Outgoing> tensors;
  int64_t hidden = 0;
};
Named named(const HfFamily& family, Held& held, DType dtype) {
  Named out;
  for (const auto& spec : held.state().specs()) {
    if (spec.role != Role::parameter || spec.adapter) continue;
    for (const Part& part : parts_of(family, spec.fqn, spec.shape))
      out.tensors.push_back(
          {{.name = part.theirs, .dtype = dtype, .shape = part.shape},
           [&held, &spec, part, dtype] { return part_of(held.merged(spec), part, dtype); }});
    if (spec.fqn == family.hidden) out.hidden = spec.shape[0];
  }
  return out;
}

void write_json(const std::string& path, const Json& json) {
  write_text(shared_file_storage(), path, json.dump(2) + "\n");
}

// What an export lacks beside the weights, and how it is had; "": nothing.
std::string lacking(const std::string& folder, const std::string& run, const Held& held) {
  const std::string& named = held.config().data.tokenizer;
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "spiece.model"})
    if (fs::exists(str(folder, "/", file))) return "";
  if (named == "bytes") return "";  // bytes have no tokenizer, and no template of theirs is kept
  return str("no tokenizer", held.chat_template().is_null() ? " is" : " and no chat_template are",
             " in it: put the files of data.tokenizer, ", printable(named), ", into ", carried_in(run),
             " (tokenizer.json and what lies beside it), and export again\n");
}

void export_adapters(const ExportRequest& request, const std::string& run, const std::string& step,
                     const HfFamily& family, Held& held, DType dtype, std::ostream& out) {
  if (held.config().train.lora.rank == 0)
    throw UserError(str(step, " is of a run without adapters (train.lora.rank is 0); leave --adapter out"));
  const Json carried = carried_config(carried_for(run, held.config()));
  const std::string base = carried.is_object() ? carried.value("_name_or_path", "") : "";
  const AdapterFiles files = adapter_files(family, held.config(), held.state(), dtype, base,
                                           [&](const std::string& fqn) { return held.read(fqn); });
  MadeFolder made(request.folder);
  write_tensors(made.file("adapter_model.safetensors"), files.tensors);
  write_json(made.file("adapter_config.json"), files.config);
  made.keep();
  out << step << " -> " << request.folder << ": adapters of rank " << held.config().train.lora.rank
      << " for a " << family.architecture << " in " << request.dtype << ", " << files.tensors.size()
      << " tensors\n";
}
}  // namespace

void export_run(const ExportRequest& request, std::ostream& out) {
  refuse_no_local_path(request.folder, "OUT");
  const DType dtype = dtype_of(request.dtype);
  const auto [run, step] = source_of(request.run, request.step);
  Held held(step);
  const RunConfig& config = held.config();
  const HfFamily& family = family_of_kind(config.model.kind, version_of(config));
  if (request.adapter) return export_adapters(request, run, step, family, held, dtype, out);
  const Named weights = named(family, held, dtype);
  const std::string carried = carried_for(run, config);
  const Json words = config_of(family, complete(family, model_options(config), weights.hidden),
                               carried_config(carried), word_of(dtype), held.classes());

  MadeFolder made(request.folder);
  const std::vector<Shard> shards = shards_of(weights.tensors, request.max_shard);
  for (const auto& shard : shards) write_tensors(made.file(shard.file), shard.tensors);
  auto write = [&](const std::string& file, const Json& json) { write_json(made.file(file), json); };
  if (shards.size() > 1) write(kTensorIndex, index_of(shards));
  if (family.generates) write("generation_config.json", generation_of(words));
  for (std::string_view file : carried_files()) (void)made.file(file);
  if (!carried.empty()) carry_files(carried, request.folder, CarriedFor::others);
  write("config.json", words);
  if (const auto words_of_chat = with_chat_template(request.folder, held.chat_template()))
    write("tokenizer_config.json", *words_of_chat);
  const std::string missing = lacking(request.folder, run, held);
  made.keep();
  out << step << " -> " << request.folder << ": a " << family.architecture << " in " << request.dtype << ", "
      << weights.tensors.size() << " tensors in " << shards.size()
      << (shards.size() == 1 ? " file" : " files") << (config.train.lora.rank > 0 ? ", adapters merged" : "")
      << "\n"
      << missing;
}

}  // namespace lockstep::launcher::hf
