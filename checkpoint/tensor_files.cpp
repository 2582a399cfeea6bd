// TensorFiles: opens one safetensors file, or all files that an index names.
#include "checkpoint/tensor_files.h"

#include <algorithm>
#include <set>

#include "checkpoint/format/damage.h"
#include "checkpoint/format/strict_json.h"
#include "checkpoint/io/read_safetensors.h"

namespace lockstep::checkpoint {

namespace {
constexpr int64_t kMaxIndexBytes = int64_t{1} << 28;

// The names in a folder; empty when `path` is not a folder.
std::vector<std::string> names_in(Storage& storage, const std::string& path) {
  std::vector<std::string> out;
  try {
    for (const auto& entry : storage.list(path)) out.push_back(entry.name);
  } catch (const StorageError&) { return {}; }
  return out;
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) shown.push_back(printable(names[i]));
  return join(shown, ", ") + (names.size() > kShown ? str(" and ", names.size() - kShown, " more") : "");
}

// The file or index that `path` refers to.
std::string tensors_at(Storage& storage, const std::string& path) {
  const std::vector<std::string> names = names_in(storage, path);
  if (names.empty()) return path;  // a file, or a path whose open fails with a clear error
  auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  for (const char* name : {kTensorFile, kTensorIndex})  // transformers 5.23: _get_resolved_checkpoint_files
    if (has(name)) return path + "/" + name;
  std::vector<std::string> others;
  for (const auto& name : names)
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) others.push_back(name);
  const bool pickled = has("pytorch_model.bin") || has("pytorch_model.bin.index.json");
  throw UserError(
      str(path, " has neither ", kTensorFile, " nor ", kTensorIndex,
          !others.empty()
              ? str("; it has ", some_of(others), ": name the file that is meant, as ", path, "/", others[0])
          : pickled ? "; its pytorch_model.bin is a pickle, which runs what its author wrote and is "
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
  if (path_ != path) tell_others(path, storage);
}

void TensorFiles::tell_others(const std::string& folder, Storage& storage) {
  std::set<std::string> read;
  for (const auto& path : paths_) read.insert(last_part(path));
  read.insert(last_part(path_));
  std::vector<std::string> others;
  for (const auto& name : names_in(storage, folder)) {
    const bool weights = name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
                         name == "pytorch_model.bin" || name == "pytorch_model.bin.index.json";
    if (weights && !read.contains(name)) others.push_back(name);
  }
  if (!others.empty())
    told_.push_back(str("the weights are those of ", path_, ", as transformers reads the folder; ",
                        some_of(others), " beside it ", others.size() == 1 ? "is" : "are", " not read"));
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
  if (!index.is_object())
    throw DamagedError(str(path_, " is no JSON object, so it is not an index of tensors"));
  const Json& map = strict::object(index, "weight_map", path_);
  std::set<std::string> files;
  for (const auto& [name, file] : map.items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos ||
        !file.get<std::string>().ends_with(".safetensors"))
      throw DamagedError(str(path_, ": the file of ", name, " is ", file.dump(),
                             "; it must be the name of a .safetensors file next to the index"));
    files.insert(file.get<std::string>());
  }
  for (const auto& file : files) {
    const std::string shard = parent_folder(path_) + "/" + file;
    if (!storage.exists(shard))
      throw UserError(str(path_, " names ", file,
                          ", which is missing: the index is older than the files next to it, or a file is "
                          "missing; fetch the folder anew, or name the file that is meant"));
    add(shard, storage);
  }
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
    out.push_back({name, tensor.dtype, tensor.shape, tensor.other});
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
