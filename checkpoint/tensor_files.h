// TensorFiles: tensors of safetensors files of any origin, by name; one file, or many listed by an index.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/format/safetensors.h"
#include "checkpoint/plan/fit.h"
#include "checkpoint/storage/storage.h"
#include "core/mesh/array.h"

namespace lockstep::checkpoint {

inline constexpr const char* kTensorFile = "model.safetensors";
inline constexpr const char* kTensorIndex = "model.safetensors.index.json";

class TensorFiles {
 public:
  // `path`: a safetensors file; an index (NAME.json, whose "weight_map" gives the file of each tensor, in the
  // index's folder); or a folder with model.safetensors or, failing that, model.safetensors.index.json (the
  // order of transformers). Reads the headers. UserError for a folder with neither, and for an index that
  // names a missing file; DamagedError for files that are malformed, that have a tensor twice, or that lack
  // one which the index names. A tensor with a dtype that Lockstep lacks is listed with the dtype's name and
  // cannot be read.
  explicit TensorFiles(const std::string& path, Storage& storage = any_storage());

  const std::string& path() const { return path_; }                 // the file or index that was opened
  const std::vector<std::string>& files() const { return paths_; }  // of tensors that were opened
  std::vector<NamedType> types() const;                             // in the order of the files
  const SafeTensor* find(const std::string& name) const;
  // For a folder: a line that names weight files in it that are not read, or "".
  std::vector<std::string> told() const { return told_; }
  // Fills the pieces of `array` from the tensor of this name, which must exist with the same shape
  // (read_safetensor).
  void read(const std::string& name, Array& array) const;

 private:
  void add(const std::string& file, Storage& storage);
  void add_index(Storage& storage);
  void tell_others(const std::string& folder, Storage& storage);
  struct Place {
    size_t file;
    SafeTensor tensor;
  };
  std::string path_;
  std::vector<std::string> paths_, told_;
  std::vector<std::unique_ptr<InFile>> files_;
  std::vector<std::string> order_;
  std::map<std::string, Place> places_;
};

}  // namespace lockstep::checkpoint
