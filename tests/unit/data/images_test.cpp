// Folders of pictures: pixels, cuts, classes, and samples that follow from seed, picture and epoch alone.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "core/base/text.h"
#include "launcher/data/images/image_samples.h"
#include "launcher/data/images/picture.h"
#include "tests/support/pictures.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

using tests::jpeg_file;
using tests::png_file;

TEST(Pictures, OfPngAreTheirPixels) {
  ScratchFolder folder;
  std::vector<uint8_t> rgb(5 * 3 * 3);
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(i * 7);
  const Picture colour = read_picture(folder.write("a.png", png_file(5, 3, 3, rgb)), 3, 1);
  EXPECT_EQ(colour.width, 5);
  EXPECT_EQ(colour.height, 3);
  EXPECT_EQ(colour.bytes, rgb);
  std::vector<uint8_t> grey = {0, 50, 100, 150, 200, 250};
  EXPECT_EQ(read_picture(folder.write("g.png", png_file(3, 2, 1, grey)), 1, 1).bytes, grey);
  // Grey becomes three equal channels; transparency is left out.
  const Picture spread = read_picture(folder.path("g.png"), 3, 1);
  for (size_t i = 0; i < grey.size(); ++i)
    for (size_t c = 0; c < 3; ++c) EXPECT_EQ(spread.bytes[3 * i + c], grey[i]);
  const Picture clear = read_picture(folder.write("t.png", png_file(1, 1, 4, {200, 100, 50, 0})), 3, 1);
  EXPECT_EQ(clear.bytes, (std::vector<uint8_t>{200, 100, 50}));
}

TEST(Pictures, OfJpegAreReadSmallerWhereThatIsEnough) {
  ScratchFolder folder;
  const std::string path = folder.write("a.jpg", jpeg_file(64, 40, std::vector<uint8_t>(64 * 40 * 3, 120)));
  EXPECT_EQ(read_picture(path, 3, 40).height, 40);
  EXPECT_EQ(read_picture(path, 3, 20).height, 20);
  EXPECT_EQ(read_picture(path, 3, 5).width, 8);
  for (uint8_t byte : read_picture(path, 1, 40).bytes) EXPECT_NEAR(byte, 120, 2);
}

TEST(Pictures, ResampledToTheirOwnSizeAreThemselves) {
  Picture picture{4, 3, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  std::vector<float> out(12);
  resample(picture, {0, 0, 4, 3}, 4, 3, false, out.data());
  EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  resample(picture, {0, 0, 4, 3}, 4, 3, true, out.data());
  EXPECT_EQ(out, (std::vector<float>{4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9}));
  resample(picture, {1, 1, 2, 2}, 2, 2, false, out.data());
  EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + 4), (std::vector<float>{6, 7, 10, 11}));
}

// Triangles keep what is constant and, away from the borders, what is linear.
TEST(Pictures, ResampledKeepRamps) {
  Picture ramp{40, 1, 1, {}};
  for (int x = 0; x < 40; ++x) ramp.bytes.push_back(static_cast<uint8_t>(6 * x));
  for (int64_t size : {10, 20, 80}) {
    std::vector<float> out(static_cast<size_t>(size));
    resample(ramp, {0, 0, 40, 1}, size, 1, false, out.data());
    const double scale = 40.0 / static_cast<double>(size);
    for (int64_t i = 2; i < size - 2; ++i)
      EXPECT_NEAR(out[static_cast<size_t>(i)], 6 * ((static_cast<double>(i) + 0.5) * scale - 0.5), 1e-3)
          << size;
  }
}

class Folders : public testing::Test {
 protected:
  // Class k has n pictures of 8 x 6, whose grey rises from left to right from 10 k on.
  void write(int classes, int n) {
    for (int k = 0; k < classes; ++k)
      for (int i = 0; i < n; ++i) {
        std::vector<uint8_t> grey;
        for (int p = 0; p < 48; ++p) grey.push_back(static_cast<uint8_t>(10 * k + 5 * (p % 8) + i));
        folder_.write(str("d/", static_cast<char>('a' + k), "/", i, ".png"), png_file(8, 6, 1, grey));
      }
  }
  DataOptions options() const {
    DataOptions out{.kind = "images", .paths = {folder_.path("d")}};
    out.seed = 3;
    return out;
  }
  static std::vector<SampleField> fields(int64_t size = 4) {
    return {{"images", DType::f32, {1, size, size}}, {"labels", DType::i32, {}, 10}};
  }
  struct Filled {
    std::vector<float> images;
    std::vector<int32_t> labels;
    bool operator==(const Filled&) const = default;
  };
  static Filled fill(const Samples& samples, int64_t step, int64_t global, int64_t first, int64_t count) {
    Filled out{std::vector<float>(static_cast<size_t>(count * 16)),
               std::vector<int32_t>(static_cast<size_t>(count))};
    samples.fill(step, global, first, count, {out.images.data(), out.labels.data()});
    return out;
  }
  ScratchFolder folder_;
};

TEST_F(Folders, AreClassesInTheOrderOfTheirNames) {
  write(3, 4);
  auto o = options();
  o.order = "sequential", o.validation = 0.25;
  const auto samples = image_samples(o, fields());
  EXPECT_EQ(samples->validation(), 3);
  EXPECT_EQ(fill(*samples, 0, 9, 0, 9).labels, (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 2, 2, 2}));
  Filled kept{std::vector<float>(48), std::vector<int32_t>(3)};
  samples->fill_validation(0, 3, {kept.images.data(), kept.labels.data()});
  EXPECT_EQ(kept.labels, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(samples->contents().size(), 3u);
}

TEST_F(Folders, ALinkedPictureIsOfEachClass) {
  write(2, 2);
  std::filesystem::create_symlink("../b/1.png", folder_.path("d/a/9.png"));
  auto o = options();
  o.order = "sequential";
  const auto samples = image_samples(o, fields());
  EXPECT_EQ(samples->contents().at(0).tokens + samples->contents().at(1).tokens, 5);
  const Filled all = fill(*samples, 0, 5, 0, 5);
  EXPECT_EQ(all.labels, (std::vector<int32_t>{0, 0, 0, 1, 1}));
  for (size_t p = 0; p < 16; ++p) EXPECT_EQ(all.images[2 * 16 + p], all.images[4 * 16 + p]) << p;
}

TEST_F(Folders, ValuesAreNormalized) {
  write(1, 1);
  auto o = options();
  o.image.mean = {0.5}, o.image.deviation = {0.25};
  const auto samples = image_samples(o, {{"images", DType::f32, {1, 6, 6}}});
  std::vector<float> image(36);
  samples->fill(0, 1, 0, 1, {image.data()});
  // The center 6 x 6 of 8 x 6, as it is: 5 x grey from x = 1 on.
  for (int x = 0; x < 6; ++x)
    EXPECT_FLOAT_EQ(image[x], (static_cast<float>(5 * (x + 1)) / 255.0f - 0.5f) / 0.25f);
}

TEST_F(Folders, SamplesFollowFromSeedPictureAndEpochAlone) {
  write(3, 4);
  auto o = options();
  o.image.crop = "resized", o.image.flip = true;
  const auto samples = image_samples(o, fields()), again = image_samples(o, fields());
  bool another = false;
  for (int64_t step = 0; step < 6; ++step) {
    const Filled whole = fill(*samples, step, 12, 0, 12);
    for (int64_t ranks : {1, 2, 3}) {
      Filled parts;
      for (int64_t r = 0; r < ranks; ++r) {
        const Filled part = fill(*again, step, 12, r * 12 / ranks, 12 / ranks);
        parts.images.insert(parts.images.end(), part.images.begin(), part.images.end());
        parts.labels.insert(parts.labels.end(), part.labels.begin(), part.labels.end());
      }
      EXPECT_EQ(parts, whole) << step << " " << ranks;
    }
    another |= !(whole == fill(*samples, step + 1, 12, 0, 12));
  }
  EXPECT_TRUE(another);
  EXPECT_EQ(fill(*samples, 2, 12, 0, 12), fill(*again, 2, 12, 0, 12));  // back again, as a resumed run
}

TEST_F(Folders, AreFlippedAboutHalfOfTheTime) {
  write(1, 1);
  auto o = options();
  o.image.flip = true;
  const auto samples = image_samples(o, fields());
  int falling = 0;
  for (int64_t i = 0; i < 400; ++i) {
    const Filled one = fill(*samples, i, 1, 0, 1);
    falling += one.images[0] > one.images[3];
  }
  EXPECT_GT(falling, 150);
  EXPECT_LT(falling, 250);
}

}  // namespace
}  // namespace lockstep::launcher::data
