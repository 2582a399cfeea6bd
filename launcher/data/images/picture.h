// Pictures: decodes PNG or JPEG to bytes, and resamples.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/data/images/pixels.h"

namespace lockstep::launcher::data {

// Whether a name has a supported extension: .png, .jpg, .jpeg, in any case.
bool is_picture_name(const std::string& path);

// Decodes a file, by its first bytes, to the bytes of Pillow's convert("RGB"), as torchvision's ImageFolder
// does, or for 1 channel of a further convert("L"). Colour chunks (gAMA, sRGB, iCCP, cHRM) and EXIF
// orientation are ignored, and transparency is dropped. 16-bit samples keep their upper 8 bits, also for
// grey, where Pillow clips at 255. A JPEG is decoded at a half, quarter or eighth of its size if its shorter
// side stays at least `least`. UserError naming a file that is not a picture, is truncated, has more than
// 2^28 pixels or does not fit in memory.
Picture read_picture(const std::string& path, int64_t channels, int64_t least);

// A part of a picture.
struct Cut {
  double x, y, width, height;
};
// Resamples the part to out[channels, height, width] with values 0 ... 255, `mirrored` left to right: a
// triangle filter as wide as the scale, like Pillow's BILINEAR. The order of summation depends only on the
// sizes.
void resample(const Picture& from, const Cut& cut, int64_t width, int64_t height, bool mirrored, float* out);

}  // namespace lockstep::launcher::data
