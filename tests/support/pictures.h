// Pictures as files in memory, by the libraries that read them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>
// clang-format off: jpeglib.h wants the names of <cstdio> before it
#include <jpeglib.h>
#include <png.h>
// clang-format on

namespace lockstep::tests {

// `channels` 1, 3, or 4 with transparency.
inline std::string png_file(uint32_t width, uint32_t height, int channels,
                            const std::vector<uint8_t>& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION, image.width = width, image.height = height;
  image.format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  png_alloc_size_t size = 0;
  if (!png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr))
    throw std::runtime_error(image.message);
  std::string out(size, '\0');
  if (!png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr))
    throw std::runtime_error(image.message);
  return out;
}

inline std::string jpeg_file(uint32_t width, uint32_t height, std::vector<uint8_t> pixels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // as libjpeg has it
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = width, info.image_height = height, info.input_components = 3,
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < height) {
    JSAMPROW row = pixels.data() + info.next_scanline * width * 3;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string out(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return out;
}

}  // namespace lockstep::tests
