// Hugging Face out: tensors in files, and the words that transformers reads beside them.
#include "launcher/hf/export.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <ostream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/safetensors.h"
#include "core/base/error.h"
#include "core/base/plain_file.h"
#include "core/models/family.h"
#include "core/nn/state.h"
#include "launcher/config/config.h"
#include "launcher/hf/config.h"
#include "launcher/hf/folder.h"
#include "launcher/hf/weights.h"

namespace lockstep::launcher::hf {

using namespace checkpoint;

namespace fs = std::filesystem;

namespace {
// A tensor of theirs, and where it comes from.
struct Outgoing {
  std::string fqn;
  Part part;
};
struct Shard {
  std::string file;
  std::vector<Outgoing> tensors;
  int64_t bytes = 0;
};

std::string run_folder(const std::string& run) {
  std::error_code unknown;
  for (const std::string& path : {run, "runs/" + run})
    if (fs::is_directory(path + "/ckpt", unknown)) return path;
  throw UserError(str(run, " is no run: there is neither ", run, "/ckpt nor runs/", run,
                      "/ckpt; export-hf takes runs/NAME"));
}

std::string step_folder(const std::string& run, int64_t step) {
  const auto found = list_checkpoints(run + "/ckpt");
  std::vector<std::string> steps;
  for (const auto& one : found) {
    steps.push_back(str(one.step));
    if (one.step == step) return one.path;
  }
  if (step >= 0 || found.empty())
    throw UserError(str(run, "/ckpt has no checkpoint", step >= 0 ? str(" of step ", step) : "",
                        steps.empty() ? "" : "; it has steps ", join(steps, ", ")));
  return found.back().path;
}

DType dtype_of(const std::string& word) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    if (word == name(dtype)) return dtype;
  throw UserError(str("--dtype is \"", word, "\"; it must be f32, bf16 or f16"));
}
std::string word_of(DType dtype) {
  return dtype == DType::f32 ? "float32" : dtype == DType::bf16 ? "bfloat16" : "float16";
}

void refuse_files_in(const std::string& folder) {
  std::error_code unknown;
  if (!fs::exists(folder, unknown)) return;
  if (!fs::is_directory(folder, unknown) || !fs::is_empty(folder, unknown))
    throw UserError(str(folder, " is there already and is no empty folder; name another one"));
}

// Files of at most `most` bytes of tensors, in the order of the model.
std::vector<Shard> shards_of(const std::vector<Outgoing>& tensors, DType dtype, int64_t most) {
  std::vector<Shard> out;
  for (const auto& tensor : tensors) {
    const int64_t bytes = numel(tensor.part.shape) * static_cast<int64_t>(size_of(dtype));
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

void write_shard(const std::string& path, const Shard& shard, DType dtype, const std::string& step,
                 Storage& held) {
  std::vector<SafeTensor> header;
  for (const auto& tensor : shard.tensors)
    header.push_back({.name = tensor.part.theirs, .dtype = dtype, .shape = tensor.part.shape});
  const std::string first = make_safetensors_header(header, {{"format", "pt"}});
  auto file = file_storage().create(path);
  file->write(first.data(), first.size());
  std::string fqn;
  Array whole;
  for (const auto& tensor : shard.tensors) {
    if (tensor.fqn != fqn) whole = read_tensor(step, fqn = tensor.fqn, held);
    const std::vector<std::byte> bytes = part_of(whole, tensor.part, dtype);
    file->write(bytes.data(), bytes.size());
  }
  file->sync();
  file->close();
}

Json index_of(const std::vector<Shard>& shards) {
  int64_t bytes = 0, elements = 0;
  std::map<std::string, std::string> files;
  for (const auto& shard : shards) {
    bytes += shard.bytes;
    for (const auto& tensor : shard.tensors) {
      files[tensor.part.theirs] = shard.file;
      elements += numel(tensor.part.shape);
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

Json carried_config(const std::string& run) {
  const std::string path = carried_in(run) + "/config.json";
  std::string text, why;
  if (!fs::exists(path)) return {};
  if (!read_plain(path, text, why)) throw UserError(str("cannot read ", path, ": ", why));
  Json out = Json::parse(text, nullptr, false);
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

// The parameters of the config's model, by their table, and the rows of the MLP.
struct Named {
  std::vector<Outgoing> tensors;
  int64_t hidden = 0;
};
Named named(const HfFamily& family, const RunConfig& config) {
  Named out;
  State state(solo_mesh(), 0);
  models::build(state.root(), config.model.kind, model_options(config));
  for (const auto& spec : state.specs()) {
    if (spec.role != Role::parameter) continue;
    for (const Part& part : parts_of(family, spec.fqn, spec.shape)) out.tensors.push_back({spec.fqn, part});
    if (spec.fqn == family.hidden) out.hidden = spec.shape[0];
  }
  return out;
}
}  // namespace

void export_run(const ExportRequest& request, std::ostream& out) {
  const DType dtype = dtype_of(request.dtype);
  const std::string run = run_folder(request.run), step = step_folder(run, request.step);
  const auto held = hold_checkpoint(step);  // its run may remove it from here on
  const RunConfig config = parse_config(read_manifest(step, *held).config.dump(), step + "/manifest.json", {},
                                        DataPaths::may_be_empty);
  const HfFamily& family = family_of_kind(config.model.kind, version_of(config));
  const Named weights = named(family, config);
  const Json words = config_of(family, complete(family, model_options(config), weights.hidden),
                               carried_config(run), word_of(dtype));

  refuse_files_in(request.folder);
  fs::create_directories(request.folder);
  const std::vector<Shard> shards = shards_of(weights.tensors, dtype, request.max_shard);
  for (const auto& shard : shards) write_shard(request.folder + "/" + shard.file, shard, dtype, step, *held);
  auto write_json = [&](const std::string& file, const Json& json) {
    write_text(file_storage(), request.folder + "/" + file, json.dump(2) + "\n");
  };
  if (shards.size() > 1) write_json(kTensorIndex, index_of(shards));
  if (family.generates) write_json("generation_config.json", generation_of(words));
  if (fs::is_directory(carried_in(run))) carry_files(carried_in(run), request.folder);
  write_json("config.json", words);
  out << step << " -> " << request.folder << ": a " << family.architecture << " in " << request.dtype << ", "
      << weights.tensors.size() << " tensors in " << shards.size()
      << (shards.size() == 1 ? " file" : " files") << "\n";
}

}  // namespace lockstep::launcher::hf
