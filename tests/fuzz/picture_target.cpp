// Fuzz target: a picture, in colour and in grey, and its reduction.
#include <vector>

#include "launcher/data/images/picture.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::fuzz {

void picture(std::string_view bytes) {
  using namespace launcher::data;
  static const ScratchFolder folder;
  const std::string path = folder.write("a.png", std::string(bytes));
  for (const int64_t channels : {int64_t{1}, int64_t{3}})
    answers([&] {
      const Picture picture = read_picture(path, channels, 4);
      FUZZ_CHECK(picture.channels == channels);
      FUZZ_CHECK(static_cast<int64_t>(picture.bytes.size()) == picture.width * picture.height * channels);
      std::vector<float> small(static_cast<size_t>(channels * 4 * 4));
      resample(picture, {0, 0, static_cast<double>(picture.width), static_cast<double>(picture.height)}, 4, 4,
               false, small.data());
    });
}

}  // namespace lockstep::fuzz
