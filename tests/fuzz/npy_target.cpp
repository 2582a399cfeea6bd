// Fuzz target: an array of numpy, its header and its first row.
#include <vector>

#include "launcher/data/npy.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::fuzz {

void npy(std::string_view bytes) {
  using namespace launcher::data;
  static const ScratchFolder folder;
  const std::string path = folder.write("a.npy", std::string(bytes));
  answers([&] {
    const NpyFile array(path);
    FUZZ_CHECK(!array.shape().empty() && array.row_elements() >= 0);
    if (array.shape()[0] < 1 || array.row_elements() > 1 << 20) return;
    std::vector<float> row(static_cast<size_t>(array.row_elements()));
    array.read(0, std::span<float>(row));
  });
}

}  // namespace lockstep::fuzz
