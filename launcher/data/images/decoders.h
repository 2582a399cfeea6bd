// The two picture decoders, which work on the bytes of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/data/images/pixels.h"

namespace lockstep::launcher::data {

// Decodes a picture with its channels. UserError naming `path`.
Picture read_png(const std::string& path, const std::vector<std::byte>& file, int64_t channels);
Picture read_jpeg(const std::string& path, const std::vector<std::byte>& file, int64_t channels,
                  int64_t least);

}  // namespace lockstep::launcher::data
