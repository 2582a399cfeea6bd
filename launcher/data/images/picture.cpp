// libpng and libjpeg, and a separable filter.
#include "launcher/data/images/picture.h"

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstring>
#include <memory>

#include "core/base/error.h"
#include "launcher/data/source.h"

namespace lockstep::launcher::data {

namespace {
constexpr int64_t kMostPixels = int64_t{1} << 28;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw UserError(str("data.paths: ", path, " ", why, "; take the file out, or save it anew"));
}
void check_size(const std::string& path, int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMostPixels / height)
    refuse(path, str("has ", width, " x ", height, " pixels, and at most 2^28 are read"));
}

Picture read_png(const std::string& path, const std::vector<std::byte>& file, int64_t channels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&image, file.data(), file.size()))
    refuse(path, str("is no PNG that can be read: ", image.message));
  const std::unique_ptr<png_image, void (*)(png_image*)> held(&image, &png_image_free);
  check_size(path, image.width, image.height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Picture out{image.width, image.height, channels, {}};
  out.bytes.resize(PNG_IMAGE_SIZE(image));
  const png_color black{0, 0, 0};
  if (!png_image_finish_read(&image, &black, out.bytes.data(), 0, nullptr))
    refuse(path, str("is cut short or damaged: ", image.message));
  return out;
}

// libjpeg reports errors by a call that must not return.
struct JpegErrors {
  jpeg_error_mgr table;  // first, as libjpeg hands it back
  std::jmp_buf out;
  char words[JMSG_LENGTH_MAX];
  static void leave(j_common_ptr info) {
    auto* self = reinterpret_cast<JpegErrors*>(info->err);
    info->err->format_message(info, self->words);
    std::longjmp(self->out, 1);
  }
  // A warning is of damaged data, whose pixels would be guesses.
  static void warn(j_common_ptr info, int level) {
    if (level < 0) leave(info);
  }
};

// All that has a destructor lives in the caller: longjmp passes none over. False, with words, on an error.
bool decode_jpeg(const std::vector<std::byte>& file, int64_t least, Picture& out, JpegErrors& errors,
                 bool& too_large) {
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors.table);
  errors.table.error_exit = JpegErrors::leave;
  errors.table.emit_message = JpegErrors::warn;
  jpeg_create_decompress(&info);
  if (setjmp(errors.out)) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  out.width = info.image_width, out.height = info.image_height;
  too_large = out.width < 1 || out.height < 1 || out.width > kMostPixels / out.height;
  if (!too_large) {
    info.out_color_space = out.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info.dct_method = JDCT_ISLOW;
    while (info.scale_denom < 8 && std::min(out.width, out.height) / (2 * info.scale_denom) >= least)
      info.scale_denom *= 2;
    jpeg_start_decompress(&info);
    out.width = info.output_width, out.height = info.output_height;
    const auto row = static_cast<size_t>(out.width * out.channels);
    out.bytes.resize(row * static_cast<size_t>(out.height));
    while (info.output_scanline < info.output_height) {
      JSAMPROW at = out.bytes.data() + info.output_scanline * row;
      jpeg_read_scanlines(&info, &at, 1);
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return true;
}

Picture read_jpeg(const std::string& path, const std::vector<std::byte>& file, int64_t channels,
                  int64_t least) {
  Picture out;
  out.channels = channels;
  JpegErrors errors;
  bool too_large = false;
  if (!decode_jpeg(file, least, out, errors, too_large))
    refuse(path, str("is a JPEG that cannot be read whole: ", errors.words));
  if (too_large) check_size(path, out.width, out.height);
  return out;
}

// Where output pixel i takes its input from, and how much of each.
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
  refuse(path, "begins as neither PNG nor JPEG");
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
