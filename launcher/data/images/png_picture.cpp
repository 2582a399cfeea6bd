// Decodes PNG with libpng row by row. Samples are plain numbers, so colour chunks do not change them.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "core/base/error.h"
#include "launcher/data/images/decoders.h"

namespace lockstep::launcher::data {

namespace {
// libpng reports errors through a callback that must not return. begin() and rows() have no local objects
// with destructors, because longjmp would skip these.
class PngRows {
 public:
  explicit PngRows(const std::vector<std::byte>& file) : file_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &PngRows::leave, &PngRows::warn);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    LS_CHECK(info_, "libpng does not start");
    png_set_read_fn(png_, this, &PngRows::give);
  }
  ~PngRows() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngRows(const PngRows&) = delete;
  PngRows& operator=(const PngRows&) = delete;

  // libpng's own limit of a million pixels a side bounds the rows that it buffers.
  // Reads the header and selects rows of 8-bit grey, RGB or palette indices. False, with a message, on an
  // error.
  bool begin() {
    if (setjmp(out_)) return false;
    // Chunks of colour management, text and transparency: ignored.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, reinterpret_cast<png_const_bytep>("tRNS"), 1);
    png_read_info(png_, info_);
    width = png_get_image_width(png_, info_), height = png_get_image_height(png_, info_);
    const png_byte type = png_get_color_type(png_, info_);
    channels = type & PNG_COLOR_MASK_COLOR && type != PNG_COLOR_TYPE_PALETTE ? 3 : 1;
    if (type == PNG_COLOR_TYPE_PALETTE) {
      png_get_PLTE(png_, info_, &palette, &colours);
      png_set_packing(png_);  // a byte a pixel: its palette index
    } else {
      png_set_expand(png_);    // 1, 2 and 4 bits of grey become 8
      png_set_strip_16(png_);  // keeps the upper 8 of 16 bits
      png_set_strip_alpha(png_);
    }
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  // Reads all rows to `at`.
  bool rows(png_bytepp at) {
    if (setjmp(out_)) return false;
    png_read_image(png_, at);
    return true;
  }
  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }

  int64_t width = 0, height = 0, channels = 0;
  png_colorp palette = nullptr;  // for indices below `colours`
  int colours = 0;
  char words[128] = "";

 private:
  [[noreturn]] static void leave(png_structp png, png_const_charp words) {
    auto* self = static_cast<PngRows*>(png_get_error_ptr(png));
    std::strncpy(self->words, words, sizeof self->words - 1);
    std::longjmp(self->out_, 1);
  }
  static void warn(png_structp, png_const_charp) {}
  static void give(png_structp png, png_bytep to, size_t bytes) {
    auto* self = static_cast<PngRows*>(png_get_io_ptr(png));
    if (bytes > self->file_.size() - self->at_) png_error(png, "the file ends there");
    std::memcpy(to, self->file_.data() + self->at_, bytes);
    self->at_ += bytes;
  }

  const std::vector<std::byte>& file_;
  size_t at_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf out_;
};

// Converts palette indices to colours.
void of_palette(Picture& picture, const PngRows& png, const std::string& path) {
  const std::vector<uint8_t> numbers = std::move(picture.bytes);
  picture.bytes.resize(3 * numbers.size());
  uint8_t* to = picture.bytes.data();
  for (const uint8_t number : numbers) {
    if (number >= png.colours)
      refuse_picture(path,
                     str("is damaged: a pixel has colour ", int{number}, " of a palette of ", png.colours));
    const png_color& colour = png.palette[number];
    *to++ = colour.red, *to++ = colour.green, *to++ = colour.blue;
  }
  picture.channels = 3;
}
}  // namespace

Picture read_png(const std::string& path, const std::vector<std::byte>& file, int64_t channels) {
  PngRows png(file);
  if (!png.begin()) refuse_picture(path, str("is not a readable PNG: ", png.words));
  Picture out{png.width, png.height, png.channels, {}, {}};
  check_size(path, out, png.palette ? 4 : std::max(channels, out.channels));
  const auto row = static_cast<size_t>(out.width * out.channels);
  LS_CHECK(png.row_bytes() == row, path, ": rows of ", png.row_bytes(), " bytes");
  out.bytes.resize(row * static_cast<size_t>(out.height));
  std::vector<png_bytep> rows(static_cast<size_t>(out.height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = out.bytes.data() + y * row;
  if (!png.rows(rows.data())) refuse_picture(path, str("is cut short or damaged: ", png.words));
  if (png.palette) of_palette(out, png, path);
  if (channels == 1 && out.channels == 3) to_grey(out);
  if (channels == 3 && out.channels == 1) to_colour(out);
  return out;
}

}  // namespace lockstep::launcher::data
