// Fuzz target: a .npz archive.
#include <vector>

#include "launcher/data/npy.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::fuzz {

void archive(std::string_view bytes) {
  using namespace launcher::data;
  static const ScratchFolder folder;
  const std::string path = folder.write("a.npz", std::string(bytes));
  answers([&] {
    for (const auto& member : npz_members(FileBytes(path), path)) {
      const NpyFile array(path, member, {});
      if (array.shape()[0] < 1 || array.row_elements() > 1 << 20) continue;
      std::vector<float> row(static_cast<size_t>(array.row_elements()));
      array.read(0, std::span<float>(row));
    }
  });
}

}  // namespace lockstep::fuzz
