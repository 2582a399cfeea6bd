// Arrays in archives as numpy writes them: arrays/ holds two, and the script that made them.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "launcher/data/samples.h"

namespace lockstep::launcher::data {
namespace {

class Archives : public testing::TestWithParam<const char*> {};

TEST_P(Archives, HoldTheirArraysByName) {
  DataOptions options{.kind = "arrays", .paths = {str(ARRAYS, "/", GetParam())}, .order = "sequential"};
  const auto samples = array_samples(
      options, {{"images", DType::f32, {3, 4}}, {"labels", DType::i32, {}, 4}, {"weights", DType::f32, {}}});
  std::vector<float> images(5 * 12), weights(5);
  std::vector<int32_t> labels(5);
  samples->fill(0, 5, 0, 5, {images.data(), labels.data(), weights.data()});
  for (size_t i = 0; i < images.size(); ++i) EXPECT_EQ(images[i], static_cast<float>(i) / 255.0f) << i;
  EXPECT_EQ(labels, (std::vector<int32_t>{3, 1, -100, 0, 2}));
  EXPECT_EQ(weights, (std::vector<float>{-0.25f, -0.125f, 0, 0.125f, 0.25f}));
  EXPECT_EQ(samples->contents().size(), 3u);
}

// A field that may be left out is zeros, and changes no fingerprint.
TEST_P(Archives, AFieldThatMayBeLeftOutIsZeros) {
  const DataOptions options{.kind = "arrays", .paths = {str(ARRAYS, "/", GetParam())}, .order = "sequential"};
  const SampleField labels{"labels", DType::i32, {}, 4};
  const auto with = array_samples(options, {labels, {"segments", DType::i32, {3}, 2, true}});
  std::vector<int32_t> read(5), zeros(15, 7);
  with->fill(0, 5, 0, 5, {read.data(), zeros.data()});
  EXPECT_EQ(read, (std::vector<int32_t>{3, 1, -100, 0, 2}));
  EXPECT_EQ(zeros, std::vector<int32_t>(15));
  EXPECT_EQ(with->fingerprint(), array_samples(options, {labels})->fingerprint());
}

INSTANTIATE_TEST_SUITE_P(Both, Archives, testing::Values("stored.npz", "packed.npz"),
                         [](const auto& info) { return std::string(info.param).substr(0, 6); });

}  // namespace
}  // namespace lockstep::launcher::data
