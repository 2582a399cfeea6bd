// Folders of pictures that are refused: each on its words.
#include <gtest/gtest.h>
#include <zlib.h>

#include "core/base/error.h"
#include "launcher/data/images/image_samples.h"
#include "launcher/data/images/picture.h"
#include "launcher/data/room.h"
#include "tests/support/pictures.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

using tests::jpeg_file;
using tests::png_file;

class ImagesErrors : public testing::Test {
 protected:
  std::string refusal(const std::vector<SampleField>& fields = {{"images", DType::f32, {3, 4, 4}},
                                                                {"labels", DType::i32, {}, 2}}) {
    DataOptions options{.kind = "images", .paths = {folder_.path("d")}};
    options.image.mean = mean_;
    options.validation = validation_;
    try {
      image_samples(options, fields);
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  }
  static void expect_words(const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << message << "\ndoes not say: " << words;
  }
  std::string grey() const { return png_file(2, 2, 1, {1, 2, 3, 4}); }
  ScratchFolder folder_;
  std::vector<double> mean_ = {0};
  double validation_ = 0;
};

TEST_F(ImagesErrors, Folders) {
  folder_.write("d/x.txt", "x");
  expect_words(refusal(),
               "data.paths: no picture (.png, .jpg, .jpeg) in the folders of " + folder_.path("d"));
  folder_.write("d/a.png", grey());
  expect_words(refusal(), folder_.path("d/a.png") +
                              " is not in a class folder; name the folder above the class folders, as "
                              "pictures of pictures/cat/1.png");
}

TEST_F(ImagesErrors, ClassesAndFields) {
  for (const char* name : {"cat", "dog", "owl"}) folder_.write(str("d/", name, "/1.png"), grey());
  expect_words(refusal(),
               "data.paths: 3 folders, a class each (cat, dog, ...), and the model has 2 classes; set "
               "model.classes to 3");
  expect_words(
      refusal({{"ids", DType::i32, {4}}, {"targets", DType::i32, {4}}}),
      "data.kind is images, pictures of 1 or 3 channels and their labels, and a sample of this model and "
      "task has ids i32[4], targets i32[4]; choose data.kind arrays, or a model of images");
  mean_ = {0, 0};
  expect_words(refusal(),
               "data.image.mean has 2 values, and a picture of this model 3 channels; give one for each, "
               "or one for all");
}

// Looked for before anything is unpacked: the file has some ten kilobytes.
TEST_F(ImagesErrors, PicturesWithoutRoomInMemory) {
  const std::string path =
      folder_.write("d/cat/1.png", png_file(5000, 5000, 1, std::vector<uint8_t>(25'000'000)));
  setenv("LOCKSTEP_MEMORY", "64MiB", 1);
  const std::string told = refusal();
  unsetenv("LOCKSTEP_MEMORY");
  EXPECT_EQ(told,
            str("data.paths: ", path,
                ": a picture of 5000 x 5000 pixels takes 71.53 MiB of memory, and this host has 64.00 MiB "
                "(LOCKSTEP_MEMORY); take the file out, or save it smaller"));
  EXPECT_EQ(refusal(), "no error");
}

TEST_F(ImagesErrors, RoomOfAHostAndItsRanks) {
  folder_.write("host/proc/meminfo", "MemAvailable: 262144 kB\n");
  const auto asked = [&](int64_t bytes) {
    try {
      check_room("a\nb.npz", "unpacked, x", bytes, "save it smaller", folder_.path("host"));
    } catch (const UserError& error) { return std::string(error.what()); }
    return std::string("no error");
  };
  EXPECT_EQ(asked(200 << 20), "no error");
  EXPECT_EQ(asked(int64_t{1} << 40),
            "data.paths: a\\nb.npz: unpacked, x takes 1.00 TiB of memory, and this host has 256.00 MiB "
            "(MemAvailable "
            "and SwapFree of /proc/meminfo); save it smaller");
  setenv("LOCAL_WORLD_SIZE", "4", 1);
  expect_words(asked(200 << 20),
               "takes 200.00 MiB of memory on each of 4 ranks, and this host has 256.00 MiB");
  unsetenv("LOCAL_WORLD_SIZE");
}

TEST_F(ImagesErrors, NamesStayInTheirLine) {
  const std::string path = folder_.write("d/cat/1.png\nroot cause: x.png", "no picture");
  const std::string told = refusal();
  EXPECT_EQ(told.find('\n'), std::string::npos) << told;
  expect_words(told, "1.png\\nroot cause: x.png begins as neither PNG nor JPEG");
}

TEST_F(ImagesErrors, ClassesWhoseNamesAreNoText) {
  folder_.write("d/caf\xe9/1.png", grey());
  EXPECT_EQ(refusal(),
            "data.paths: the folder of a class is named caf\\xe9, which is not UTF-8, and names of classes "
            "are kept "
            "with the weights; rename it");
}

TEST_F(ImagesErrors, NumbersBeyondAPalette) {
  // A pixel of two bits, 3, and a palette of two colours.
  std::string file("\x89PNG\r\n\x1a\n", 8);
  auto number = [](uint32_t n) {
    return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
                       static_cast<char>(n)};
  };
  auto chunk = [&](const std::string& body) {
    const auto* bytes = reinterpret_cast<const Bytef*>(body.data());
    file += number(static_cast<uint32_t>(body.size() - 4)) + body +
            number(static_cast<uint32_t>(crc32(0, bytes, static_cast<uInt>(body.size()))));
  };
  std::string packed(64, '\0');
  uLongf size = packed.size();
  const Bytef row[] = {0, 0xff};
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size, row, sizeof row), Z_OK);
  chunk("IHDR" + number(1) + number(1) + std::string("\2\3\0\0\0", 5));
  chunk("PLTE" + std::string(6, 'x'));
  chunk("IDAT" + packed.substr(0, size));
  chunk("IEND");
  const std::string path = folder_.write("d/cat/1.png", file);
  expect_words(refusal(), path + " is damaged: a pixel has colour 3 of a palette of 2; take the file out");
}

TEST_F(ImagesErrors, Pictures) {
  const std::string path = folder_.write("d/cat/1.png", "no picture");
  expect_words(refusal(), path + " begins as neither PNG nor JPEG; take the file out, or save it anew");
  folder_.write("d/cat/1.png", "\x89PNG\r\n\x1a\n");
  expect_words(refusal(), path + " is not a readable PNG: ");
  std::vector<uint8_t> noise(64 * 64 * 3);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<uint8_t>(i * i * 31 >> 3);
  const std::string png = png_file(64, 64, 3, noise), jpeg = jpeg_file(64, 64, noise);
  folder_.write("d/cat/1.png", png.substr(0, png.size() / 2));
  expect_words(refusal(), path + " is cut short or damaged: ");
  folder_.write("d/cat/1.png", jpeg.substr(0, jpeg.size() / 2));
  expect_words(refusal(), path + " is a JPEG that cannot be read whole: ");
  folder_.write("d/cat/1.png", jpeg);  // what it begins with decides
  EXPECT_EQ(refusal(), "no error");
  std::string wide = png;
  for (size_t i = 16; i < 24; ++i) wide[i] = '\x7f';  // width and height of the header
  folder_.write("d/cat/1.png", wide);
  EXPECT_NE(refusal(), "no error");
  folder_.write("d/cat/1.png", png);
  validation_ = 0.9;
  expect_words(refusal(), "1 pictures, of which all are kept for validation: none is left to train on");
}

}  // namespace
}  // namespace lockstep::launcher::data
