// Files of tensors: one, or those that an index names.
#include "checkpoint/tensor_files.h"

#include <algorithm>
#include <set>

#include "checkpoint/format/damage.h"
#include "checkpoint/format/strict_json.h"
#include "checkpoint/io/read_safetensors.h"

namespace lockstep::checkpoint {

namespace {
constexpr int64_t kMaxIndexBytes = int64_t{1} << 28;

// The names in a folder; nothing where `path` is no folder.
std::vector<std::string> names_in(Storage& storage, const std::string& path) {
  std::vector<std::string> out;
  try {
    for (const auto& entry : storage.list(path)) out.push_back(entry.name);
  } catch (const StorageError&) { return {}; }
  return out;
}

// The file or the index that `path` means.
std::string tensors_at(Storage& storage, const std::string& path) {
  const std::vector<std::string> names = names_in(storage, path);
  if (names.empty()) return path;  // a file, or what cannot be opened as one
  auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  for (const char* name : {kTensorIndex, kTensorFile})
    if (has(name)) return path + "/" + name;
  const bool pickled = has("pytorch_model.bin") || has("pytorch_model.bin.index.json");
  throw UserError(str(path, " has neither ", kTensorFile, " nor ", kTensorIndex,
                      pickled
                          ? "; its pytorch_model.bin is a pickle, which runs what its author wrote and is "
                            "not read: load it with "
                            "transformers and write it with save_pretrained, which writes safetensors"
                          : "; name the file or the folder that holds the weights"));
}
}  // namespace

TensorFiles::TensorFiles(const std::string& path, Storage& storage) : path_(tensors_at(storage, path)) {
  if (path_.ends_with(".json"))
    add_index(storage);
  else
    add(path_, storage);
}

void TensorFiles::add(const std::string& file, Storage& storage) {
  files_.push_back(storage.open(file));
  paths_.push_back(file);
  for (auto& tensor : read_safetensors_header(*files_.back(), file).tensors) {
    const auto [place, fresh] = places_.insert({tensor.name, {files_.size() - 1, tensor}});
    if (!fresh)
      throw DamagedError(str(tensor.name, " is in ", paths_[place->second.file], " and in ", file,
                             "; one of them is wrong"));
    order_.push_back(tensor.name);
  }
}

void TensorFiles::add_index(Storage& storage) {
  const Json index = strict::parse(read_text(storage, path_, kMaxIndexBytes), path_);
  if (!index.is_object()) throw DamagedError(str(path_, " is no JSON object, so it is no index of tensors"));
  const Json& map = strict::object(index, "weight_map", path_);
  std::set<std::string> files;
  for (const auto& [name, file] : map.items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos ||
        !file.get<std::string>().ends_with(".safetensors"))
      throw DamagedError(str(path_, ": the file of ", name, " is ", file.dump(),
                             "; it must be the name of a .safetensors file beside the index"));
    files.insert(file.get<std::string>());
  }
  for (const auto& file : files) add(parent_folder(path_) + "/" + file, storage);
  for (const auto& [name, file] : map.items()) {
    const auto found = places_.find(name);
    const std::string wanted = parent_folder(path_) + "/" + file.get<std::string>();
    if (found == places_.end() || paths_[found->second.file] != wanted)
      throw DamagedError(str(path_, ": ", name, " is said to be in ", wanted, ", which does not have it"));
  }
}

std::vector<NamedType> TensorFiles::types() const {
  std::vector<NamedType> out;
  for (const auto& name : order_) {
    const SafeTensor& tensor = places_.at(name).tensor;
    out.push_back({name, tensor.dtype, tensor.shape});
  }
  return out;
}

const SafeTensor* TensorFiles::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &found->second.tensor;
}

void TensorFiles::read(const std::string& name, Array& array) const {
  const Place& place = places_.at(name);
  read_safetensor(*files_[place.file], place.tensor, array);
}

}  // namespace lockstep::checkpoint
