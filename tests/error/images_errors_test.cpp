// Folders of pictures that are refused: each on its words.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "launcher/data/images/image_samples.h"
#include "launcher/data/images/picture.h"
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
                              " lies in no folder of a class; name the folder above the "
                              "folders of the classes, as pictures of pictures/cat/1.png");
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

TEST_F(ImagesErrors, Pictures) {
  const std::string path = folder_.write("d/cat/1.png", "no picture");
  expect_words(refusal(), path + " begins as neither PNG nor JPEG; take the file out, or save it anew");
  folder_.write("d/cat/1.png", "\x89PNG\r\n\x1a\n");
  expect_words(refusal(), path + " is no PNG that can be read: ");
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
