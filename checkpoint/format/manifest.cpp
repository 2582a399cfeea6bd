// Manifest to text.
#include "checkpoint/format/manifest.h"

#include "checkpoint/format/checksum.h"
#include "core/base/hash.h"
#include "core/base/text.h"

namespace lockstep::checkpoint {

const TensorRecord* Manifest::find(std::string_view fqn) const {
  for (const auto& tensor : tensors)
    if (tensor.fqn == fqn) return &tensor;
  return nullptr;
}
const FileRecord* Manifest::find_file(std::string_view name) const {
  for (const auto& file : files)
    if (file.name == name) return &file;
  return nullptr;
}

namespace {
std::string compact(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string rows(const Json& object) {
  std::string out = "{";
  bool first = true;
  for (const auto& [key, value] : object.items()) {
    out += str(first ? "\n    " : ",\n    ", compact(key), ": ", compact(value));
    first = false;
  }
  return out + (first ? "}" : "\n  }");
}
}  // namespace

std::string to_text(const Manifest& manifest) {
  Json json;
  json["format"] = kManifestFormat;
  json["byte_order"] = "little";
  json["step"] = manifest.step;
  json["serial"] = manifest.serial;
  json["state_hash"] = manifest.state_hash;
  json["certificate"] = manifest.certificate;
  json["producer"] = manifest.producer;
  json["mesh"] = {{"shape", manifest.mesh.shape}, {"dim_names", manifest.mesh.dim_names}};
  json["config"] = manifest.config;
  json["extra"] = manifest.extra;
  Json files = Json::object(), tensors = Json::object();
  for (const auto& file : manifest.files)
    files[file.name] = {
        {"bytes", file.bytes}, {"header_bytes", file.header_bytes}, {"xxh3", checksum_text(file.xxh3)}};
  for (const auto& tensor : manifest.tensors) {
    Json chunks = Json::array();
    for (const auto& chunk : tensor.chunks)
      chunks.push_back({{"file", chunk.file},
                        {"offset", chunk.offset},
                        {"bytes", chunk.bytes},
                        {"box", {{"offset", chunk.box.offset}, {"size", chunk.box.size}}},
                        {"xxh3", checksum_text(chunk.xxh3)}});
    tensors[tensor.fqn] = {
        {"dtype", name(tensor.dtype)}, {"shape", tensor.shape}, {"chunks", std::move(chunks)}};
    if (tensor.updates >= 0) tensors[tensor.fqn]["updates"] = tensor.updates;
  }
  json["files"] = std::move(files);
  json["tensors"] = std::move(tensors);
  std::string out = "{";
  for (const auto& [key, value] : json.items()) {
    bool table = key == "files" || key == "tensors";
    out += str("\n  ", compact(key), ": ", table ? rows(value) : compact(value), ",");
  }
  return out + str("\n  \"checksum\": \"", hash_hex(compact(json)), "\"\n}\n");
}

}  // namespace lockstep::checkpoint
