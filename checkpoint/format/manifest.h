// Manifest: lists the contents of a checkpoint folder. manifest.json is written last, so a folder that has
// one is complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/mesh/mesh.h"
#include "core/types/box.h"

namespace lockstep::checkpoint {

inline constexpr int64_t kManifestFormat = 1;  // a reader refuses a larger number
inline constexpr const char* kManifestName = "manifest.json";

// A stored box of a tensor: `bytes` bytes at `offset` (from the start of the file), row-major and dense.
struct Chunk {
  std::string file;
  int64_t offset = 0;
  int64_t bytes = 0;
  Box box;
  uint64_t xxh3 = 0;  // XXH3-64 of the bytes
};

struct TensorRecord {
  std::string fqn;
  DType dtype = DType::f32;
  Shape shape;  // global
  std::vector<Chunk> chunks;
  int64_t updates = -1;  // optimizer steps applied to it; -1: not recorded
};

// A safetensors file of the folder. The chunks cover [header_bytes, bytes); xxh3 is of the header, so every
// byte has a checksum.
struct FileRecord {
  std::string name;
  int64_t bytes = 0;
  int64_t header_bytes = 0;
  uint64_t xxh3 = 0;
};

struct Manifest {
  int64_t step = 0;
  int64_t serial = 0;  // place in the order of commits to the folder: 1, 2, ... A rewound run commits small
                       // steps with large serials
  std::string state_hash;   // of all tensors, on any layout
  std::string certificate;  // numerics certificate of the run that wrote it
  std::string producer;
  Mesh mesh;  // of the run that wrote it; readers may have any other
  Json config, extra;
  std::vector<FileRecord> files;
  std::vector<TensorRecord> tensors;

  const TensorRecord* find(std::string_view fqn) const;  // nullptr when there is none
  const FileRecord* find_file(std::string_view name) const;
};

// JSON, one tensor per line, ending in a checksum of itself.
std::string to_text(const Manifest& manifest);

// Checks everything that can be checked without the data files: types, ranges (no negative, no 2^63), file
// names that stay in the folder, chunks that tile their tensor exactly and their file without overlap, hole
// or overrun, its own checksum. DamagedError naming `path` and the place; UserError when a newer Lockstep
// wrote it or the byte order differs.
Manifest parse_manifest(std::string_view text, const std::string& path);

}  // namespace lockstep::checkpoint
