// Chooses the decoder by a file's first bytes, converts grey and colour, and resamples with a separable
// filter.
#include "launcher/data/images/picture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "launcher/data/images/decoders.h"
#include "launcher/data/source.h"

namespace lockstep::launcher::data {

namespace {
// The input pixels of each output pixel, and their weights.
struct Taps {
  int64_t first;
  std::vector<float> weights;
};
std::vector<Taps> taps_of(double from, double length, int64_t size, int64_t limit) {
  const double scale = length / static_cast<double>(size), reach = std::max(scale, 1.0);
  std::vector<Taps> out;
  for (int64_t i = 0; i < size; ++i) {
    const double center = from + (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, std::llround(std::ceil(center - reach - 0.5)));
    const auto last = std::min<int64_t>(limit - 1, std::llround(std::floor(center + reach - 0.5)));
    std::vector<double> weights;
    double all = 0;
    for (int64_t k = first; k <= last; ++k) {
      weights.push_back(std::max(0.0, 1 - std::abs((static_cast<double>(k) + 0.5 - center) / reach)));
      all += weights.back();
    }
    Taps taps{std::min(first, limit - 1), {}};
    if (all <= 0) weights.assign(1, 1), all = 1;
    for (double weight : weights) taps.weights.push_back(static_cast<float>(weight / all));
    out.push_back(std::move(taps));
  }
  return out;
}
}  // namespace

bool is_picture_name(const std::string& path) {
  std::string end = path.substr(std::min(path.size(), path.rfind('.')));
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

Picture read_picture(const std::string& path, int64_t channels, int64_t least) {
  LS_CHECK(channels == 1 || channels == 3, channels);
  const FileBytes bytes(path);
  std::vector<std::byte> file(bytes.size());
  bytes.read(0, file.data(), bytes.size());
  if (file.size() >= 8 && std::memcmp(file.data(), "\x89PNG\r\n\x1a\n", 8) == 0)
    return read_png(path, file, channels);
  if (file.size() >= 3 && std::memcmp(file.data(), "\xff\xd8\xff", 3) == 0)
    return read_jpeg(path, file, channels, std::max<int64_t>(least, 1));
  refuse_picture(path, "begins as neither PNG nor JPEG");
}

void resample(const Picture& from, const Cut& cut, int64_t width, int64_t height, bool mirrored, float* out) {
  const auto across = taps_of(cut.x, cut.width, width, from.width),
             down = taps_of(cut.y, cut.height, height, from.height);
  const int64_t channels = from.channels, top = down.front().first,
                bottom = down.back().first + static_cast<int64_t>(down.back().weights.size());
  std::vector<float> rows((bottom - top) * width * channels);
  for (int64_t y = top; y < bottom; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c) {
        float sum = 0;
        const Taps& taps = across[x];
        for (size_t k = 0; k < taps.weights.size(); ++k)
          sum += taps.weights[k] *
                 static_cast<float>(
                     from.bytes[(y * from.width + taps.first + static_cast<int64_t>(k)) * channels + c]);
        rows[((y - top) * width + x) * channels + c] = sum;
      }
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        float sum = 0;
        const Taps& taps = down[y];
        for (size_t k = 0; k < taps.weights.size(); ++k)
          sum += taps.weights[k] *
                 rows[((taps.first + static_cast<int64_t>(k) - top) * width + x) * channels + c];
        out[(c * height + y) * width + (mirrored ? width - 1 - x : x)] = sum;
      }
}

}  // namespace lockstep::launcher::data
