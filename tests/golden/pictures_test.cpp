// Pictures against Pillow's bytes: every kind of PNG and JPEG that it reads, made by pictures/make.py.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "launcher/data/images/picture.h"
#include "launcher/data/source.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

struct Kept {
  std::string name, file;
  int64_t width = 0, height = 0;
  std::vector<uint8_t> colour, grey;
};

class Reader {
 public:
  Reader() {
    const FileBytes file(PICTURES "/pictures.bin");
    std::vector<std::byte> packed(file.size());
    file.read(0, packed.data(), file.size());
    uint32_t bytes = 0;
    std::memcpy(&bytes, packed.data(), 4);
    body_.resize(bytes);
    uLongf size = bytes;
    if (uncompress(body_.data(), &size, reinterpret_cast<const Bytef*>(packed.data()) + 4,
                   packed.size() - 4) != Z_OK ||
        size != bytes)
      throw std::runtime_error("pictures.bin is damaged");
  }
  uint32_t number() {
    uint32_t out = 0;
    std::memcpy(&out, take(4), 4);
    return out;
  }
  const uint8_t* take(size_t bytes) {
    if (bytes > body_.size() - at_) throw std::runtime_error("pictures.bin is cut short");
    return body_.data() + std::exchange(at_, at_ + bytes);
  }
  Kept kept() {
    Kept out;
    const size_t name = number(), file = number();
    out.width = number(), out.height = number();
    const size_t pixels = static_cast<size_t>(out.width * out.height);
    out.name.assign(reinterpret_cast<const char*>(take(name)), name);
    out.file.assign(reinterpret_cast<const char*>(take(file)), file);
    const uint8_t* at = take(3 * pixels);
    out.colour.assign(at, at + 3 * pixels);
    at = take(pixels);
    out.grey.assign(at, at + pixels);
    return out;
  }

 private:
  std::vector<uint8_t> body_;
  size_t at_ = 0;
};

TEST(PicturesBesidePillow, AreItsBytes) {
  Reader reader;
  ScratchFolder folder;
  const uint32_t count = reader.number();
  EXPECT_GE(count, 300u);
  for (uint32_t i = 0; i < count; ++i) {
    const Kept kept = reader.kept();
    SCOPED_TRACE(kept.name);
    const std::string path = folder.write("picture.png", kept.file);  // what it begins with decides
    const Picture colour = read_picture(path, 3, 1000), grey = read_picture(path, 1, 1000);
    EXPECT_EQ(colour.width, kept.width);
    EXPECT_EQ(colour.height, kept.height);
    EXPECT_EQ(colour.bytes, kept.colour);
    EXPECT_EQ(grey.bytes, kept.grey);
    EXPECT_EQ(grey.channels, 1);
  }
}

}  // namespace
}  // namespace lockstep::launcher::data
