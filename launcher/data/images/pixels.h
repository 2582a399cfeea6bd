// A picture in memory, and what both decoders do with one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::launcher::data {

// Rows from the top, `channels` bytes a pixel: 1 (grey) or 3 (red, green, blue).
struct Picture {
  int64_t width = 0, height = 0, channels = 0;
  std::vector<uint8_t> bytes;
  std::shared_ptr<const void> turn = {};  // large ones are held one at a time in a process
};

// UserError: data.paths, the file, why, and what to do.
[[noreturn]] void refuse_picture(const std::string& path, const std::string& why);
// Refuses sizes of 0 and of more than 2^28 pixels, and what has no room in memory at `bytes` a pixel. The
// picture's turn is taken where it is large.
void check_size(const std::string& path, Picture& picture, int64_t bytes);

// Red, green and blue of a pixel after another to one grey, as Pillow's convert("L") has it: 0.299, 0.587
// and 0.114 in 16 bits, rounded.
void to_grey(Picture& picture);
void to_colour(Picture& picture);  // three times the grey

}  // namespace lockstep::launcher::data
