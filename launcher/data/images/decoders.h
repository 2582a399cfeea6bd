// The two decoders of pictures, over the bytes of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/data/images/pixels.h"

namespace lockstep::launcher::data {

// The picture of a file, in its channels. UserError naming `path`.
Picture read_png(const std::string& path, const std::vector<std::byte>& file, int64_t channels);
Picture read_jpeg(const std::string& path, const std::vector<std::byte>& file, int64_t channels,
                  int64_t least);

}  // namespace lockstep::launcher::data
