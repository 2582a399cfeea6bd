// Pixels: a picture in memory, and the code shared by both decoders.
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
  std::shared_ptr<const void> turn = {};  // a lock: large pictures are decoded one at a time in a process
};

// Throws UserError: data.paths, the file, why, and what to do.
[[noreturn]] void refuse_picture(const std::string& path, const std::string& why);
// Refuses sizes of 0 and of more than 2^28 pixels, and pictures that do not fit in memory at `bytes` a pixel.
// A large picture waits for its turn.
void check_size(const std::string& path, Picture& picture, int64_t bytes);

// Converts interleaved RGB to grey like Pillow's convert("L"): 0.299, 0.587 and 0.114 in 16 bits, rounded.
void to_grey(Picture& picture);
void to_colour(Picture& picture);  // repeats grey three times

}  // namespace lockstep::launcher::data
