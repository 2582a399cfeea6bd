// Fuzz target: a .npz archive, or a picture by what it begins with.
#include <vector>

#include "launcher/data/images/picture.h"
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
      const NpyFile array(path, member);
      if (array.shape()[0] < 1 || array.row_elements() > 1 << 20) continue;
      std::vector<float> row(static_cast<size_t>(array.row_elements()));
      array.read(0, std::span<float>(row));
    }
  });
  answers([&] {
    const Picture picture = read_picture(path, 3, 4);
    FUZZ_CHECK(static_cast<int64_t>(picture.bytes.size()) == picture.width * picture.height * 3);
    std::vector<float> small(3 * 4 * 4);
    resample(picture, {0, 0, static_cast<double>(picture.width), static_cast<double>(picture.height)}, 4, 4,
             false, small.data());
  });
}

}  // namespace lockstep::fuzz
