// A checkpoint folder with two small tensors in each step: saving, loading, and what lies in it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "distributed/local/local_world.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/state_arrays.h"

namespace lockstep {

namespace fs = std::filesystem;
inline const std::vector<StateSpec> kSpecs{{"w", DType::f32, {6, 3}}, {"b", DType::bf16, {3}}};

inline checkpoint::SavedInfo save(const std::string& dir, int64_t step, uint64_t salt, int keep = 0) {
  auto state = solo_state(kSpecs, salt);
  return checkpoint::save_checkpoint(dir, {step, {{"lr", 0.5}}, "cert", {{"best", 1.25}}}, readable(state),
                                     solo_mesh(), keep);
}
struct Found {
  int64_t step = -1;
  uint64_t salt = 0;
  bool operator==(const Found&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Found& f) {
  return out << "step " << f.step << " salt " << f.salt;
}

// Loads, and gives step and salt (0 when the elements are of none of 1..9).
inline Found load(const std::string& dir, int ranks = 1) {
  Found out;
  distributed::local_mesh(ranks, Mesh{{ranks}, {"dp_shard"}}, [&](LiveMesh& live) {
    auto state = make_state(kSpecs, live.words, live.rank, [](const StateSpec&) {
      Layout l;
      l.set(0, Shard(0));
      return l;
    });
    auto loaded = checkpoint::load_latest(dir, writable(state), live);
    Found mine;
    if (loaded) mine.step = loaded->step;
    for (uint64_t salt = 1; salt < 10; ++salt)
      if (loaded && difference(state, salt).empty()) mine.salt = salt;
    if (live.rank == 0) out = mine;
  });
  return out;
}
inline std::vector<std::string> names(const std::string& dir) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(dir)) out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}
inline void flip_byte(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(at);
  file.put(byte);
}
inline std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace lockstep
