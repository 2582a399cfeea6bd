// A picture of a file: PNG or JPEG to bytes, and resampling.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/data/images/pixels.h"

namespace lockstep::launcher::data {

// Whether a name ends as those of files that are read: .png, .jpg, .jpeg, in any case.
bool is_picture_name(const std::string& path);

// Decodes a file, by what it begins with, to the bytes that Pillow's convert("RGB") has, as torchvision's
// folders of pictures read them, or convert("L") of those for 1 channel. Colour chunks (gAMA, sRGB, iCCP,
// cHRM) and EXIF's orientation change nothing, transparency is left out, and of 16 bits the upper 8 are
// taken: of grey, too, where Pillow cuts off what is beyond 255. A JPEG is decoded at a half, quarter or
// eighth of its size where its shorter side stays at least `least`. UserError naming the file where it is
// none, is cut short, or has more than 2^28 pixels or no room in memory.
Picture read_picture(const std::string& path, int64_t channels, int64_t least);

// A part of a picture.
struct Cut {
  double x, y, width, height;
};
// The part as out[channels, height, width] of values 0 ... 255, `mirrored` left to right: triangles as wide
// as the scale, as Pillow's BILINEAR. The sums' order follows from the sizes alone.
void resample(const Picture& from, const Cut& cut, int64_t width, int64_t height, bool mirrored, float* out);

}  // namespace lockstep::launcher::data
