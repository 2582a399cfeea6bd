// Decodes JPEG with libjpeg and its defaults (islow, fancy upsampling), as Pillow does.
#include <cstdio>
// clang-format off: jpeglib.h wants the names of <cstdio> before it
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <csetjmp>

#include "core/base/error.h"
#include "launcher/data/images/decoders.h"

namespace lockstep::launcher::data {

namespace {
// libjpeg reports errors through a callback that must not return.
struct JpegErrors {
  jpeg_error_mgr table;  // must be first: libjpeg passes back its address
  std::jmp_buf out;
  char words[JMSG_LENGTH_MAX];
  static void leave(j_common_ptr info) {
    auto* self = reinterpret_cast<JpegErrors*>(info->err);
    info->err->format_message(info, self->words);
    std::longjmp(self->out, 1);
  }
  // A warning means damaged data, whose pixels would be guesses.
  static void warn(j_common_ptr info, int level) {
    if (level < 0) leave(info);
  }
};

// An open file. begin() and rows() have no local objects with destructors, because longjmp would skip these.
class JpegRows {
 public:
  explicit JpegRows(const std::vector<std::byte>& file) : file_(file) {
    info_.err = jpeg_std_error(&errors_.table);
    errors_.table.error_exit = JpegErrors::leave;
    errors_.table.emit_message = JpegErrors::warn;
  }
  ~JpegRows() { jpeg_destroy_decompress(&info_); }
  JpegRows(const JpegRows&) = delete;
  JpegRows& operator=(const JpegRows&) = delete;

  // Reads the header and selects rows of grey, RGB or four inks (CMYK). False, with a message, on an error.
  bool begin() {
    if (setjmp(errors_.out)) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
    jpeg_read_header(&info_, TRUE);
    width = info_.image_width, height = info_.image_height;
    const bool inks = info_.num_components == 4;
    channels = inks ? 4 : info_.num_components == 1 ? 1 : 3;
    info_.out_color_space = inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info_.dct_method = JDCT_ISLOW;
    progressive = info_.progressive_mode;
    return true;
  }
  // Decodes at a half, quarter or eighth of the size where the shorter side stays at least `least`; width and
  // height are then those of the rows.
  bool start(int64_t least) {
    if (setjmp(errors_.out)) return false;
    while (info_.scale_denom < 8 && std::min(width, height) / (2 * info_.scale_denom) >= least)
      info_.scale_denom *= 2;
    jpeg_start_decompress(&info_);
    width = info_.output_width, height = info_.output_height;
    return true;
  }
  bool rows(uint8_t* to) {
    if (setjmp(errors_.out)) return false;
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW at = to + static_cast<size_t>(info_.output_scanline) * static_cast<size_t>(width * channels);
      jpeg_read_scanlines(&info_, &at, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }
  const char* words() const { return errors_.words; }

  int64_t width = 0, height = 0, channels = 0;
  bool progressive = false;

 private:
  const std::vector<std::byte>& file_;
  jpeg_decompress_struct info_{};
  JpegErrors errors_;
};

// Converts CMYK, which Adobe writes inverted, to RGB as Pillow does.
void inks_to_colour(Picture& picture) {
  const size_t pixels = picture.bytes.size() / 4;
  uint8_t* bytes = picture.bytes.data();
  for (size_t i = 0; i < pixels; ++i) {
    const int black = bytes[4 * i + 3];  // 255: none
    for (size_t c = 0; c < 3; ++c) {
      const int product = (255 - bytes[4 * i + c]) * black + 128;
      bytes[3 * i + c] = static_cast<uint8_t>(std::max(0, black - ((product >> 8) + product) / 256));
    }
  }
  picture.bytes.resize(3 * pixels);
  picture.channels = 3;
}
}  // namespace

Picture read_jpeg(const std::string& path, const std::vector<std::byte>& file, int64_t channels,
                  int64_t least) {
  JpegRows jpeg(file);
  auto must = [&](bool done) {
    if (!done) refuse_picture(path, str("is a JPEG that cannot be read whole: ", jpeg.words()));
  };
  must(jpeg.begin());
  Picture out{jpeg.width, jpeg.height, jpeg.channels, {}, {}};
  check_size(path, out,
             std::max<int64_t>(3, jpeg.channels * (jpeg.progressive ? 3 : 1)));  // two-byte coefficients
  must(jpeg.start(least));
  out.width = jpeg.width, out.height = jpeg.height;
  out.bytes.resize(static_cast<size_t>(out.width * out.height * out.channels));
  must(jpeg.rows(out.bytes.data()));
  if (out.channels == 4) inks_to_colour(out);
  if (channels == 1 && out.channels == 3) to_grey(out);
  if (channels == 3 && out.channels == 1) to_colour(out);
  return out;
}

}  // namespace lockstep::launcher::data
