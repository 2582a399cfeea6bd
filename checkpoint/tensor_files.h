// Tensors of safetensors files of any origin: one file, or many behind an index, by name.
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
  // index's folder); or a folder that holds model.safetensors.index.json or model.safetensors. Reads the
  // headers. UserError for a folder with neither, DamagedError for files that are not well-formed, that have
  // a tensor twice, or that lack one which the index names.
  explicit TensorFiles(const std::string& path, Storage& storage = any_storage());

  const std::string& path() const { return path_; }  // the file or index that was opened
  std::vector<NamedType> types() const;              // in the order of the files
  const SafeTensor* find(const std::string& name) const;
  // Fills the pieces of `array` from the tensor of this name, whose shape it has (read_safetensor). The files
  // have it.
  void read(const std::string& name, Array& array) const;

 private:
  void add(const std::string& file, Storage& storage);
  void add_index(Storage& storage);
  struct Place {
    size_t file;
    SafeTensor tensor;
  };
  std::string path_;
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<InFile>> files_;
  std::vector<std::string> order_;
  std::map<std::string, Place> places_;
};

}  // namespace lockstep::checkpoint
