// Converts grey and colour, and refuses pictures that are too large.
#include "launcher/data/images/pixels.h"

#include <mutex>

#include "core/base/error.h"
#include "core/reading/one_line.h"
#include "launcher/data/room.h"

namespace lockstep::launcher::data {

void refuse_picture(const std::string& path, const std::string& why) {
  throw UserError(str("data.paths: ", one_line(path), " ", why, "; take the file out, or save it anew"));
}

void check_size(const std::string& path, Picture& picture, int64_t bytes) {
  constexpr int64_t kMostPixels = int64_t{1} << 28, kLargeBytes = int64_t{64} << 20;
  const int64_t width = picture.width, height = picture.height;
  if (width < 1 || height < 1 || width > kMostPixels / height)
    refuse_picture(path, str("has ", width, " x ", height, " pixels, and at most 2^28 are read"));
  if (width * height * bytes > kLargeBytes) {
    static std::recursive_mutex turn;
    picture.turn = std::make_shared<std::unique_lock<std::recursive_mutex>>(turn);
  }
  check_room(path, str("a picture of ", width, " x ", height, " pixels"), width * height * bytes,
             "take the file out, or save it smaller");
}

void to_grey(Picture& picture) {
  const size_t pixels = picture.bytes.size() / 3;
  uint8_t* bytes = picture.bytes.data();
  for (size_t i = 0; i < pixels; ++i)
    bytes[i] = static_cast<uint8_t>(
        (bytes[3 * i] * 19595u + bytes[3 * i + 1] * 38470u + bytes[3 * i + 2] * 7471u + 0x8000u) >> 16);
  picture.bytes.resize(pixels);
  picture.channels = 1;
}

void to_colour(Picture& picture) {
  const size_t pixels = picture.bytes.size();
  picture.bytes.resize(3 * pixels);
  uint8_t* bytes = picture.bytes.data();
  for (size_t i = pixels; i-- > 0;) bytes[3 * i] = bytes[3 * i + 1] = bytes[3 * i + 2] = bytes[i];
  picture.channels = 3;
}

}  // namespace lockstep::launcher::data
