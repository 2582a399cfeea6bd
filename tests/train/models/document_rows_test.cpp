// Rows of several documents: each is computed as if it stood alone.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/compile/forward.h"
#include "core/models/family.h"
#include "core/nn/document_rows.h"

namespace lockstep {
namespace {

constexpr int64_t kContext = 12, kVocab = 29;

class PackedDocuments : public testing::TestWithParam<const char*> {};

TEST_P(PackedDocuments, AreComputedAsIfEachStoodAlone) {
  State state(solo_mesh(), 7);
  const models::Model model =
      models::build(state.root(), GetParam(),
                    {{"vocab", kVocab}, {"context", kContext}, {"width", 24}, {"depth", 2}, {"heads", 4}});
  ASSERT_TRUE(model.packs);
  state.materialize();
  const std::vector<compiler::BatchField> fields = {{"ids", DType::i32, {1, kContext}},
                                                    {"documents", DType::i32, {1, kContext}},
                                                    {"positions", DType::i32, {1, kContext}}};
  compiler::Forward forward(state, fields,
                            [&](const std::vector<Tensor>& batch) {
                              DocumentRows rows(batch[1], batch[2]);
                              return convert(model.logits(batch[0], false), DType::f32);
                            },
                            {});
  auto logits = [&](std::vector<int32_t> ids, std::vector<int32_t> documents,
                    std::vector<int32_t> positions) {
    const auto* from =
        static_cast<const float*>(forward.run({ids.data(), documents.data(), positions.data()}));
    return std::vector<float>(from, from + kContext * kVocab);
  };
  // Documents of 5 and of 6 tokens, and a place that is empty.
  const std::vector<int32_t> ids = {3, 14, 15, 9, 26, 5, 3, 5, 8, 9, 7, 0};
  const auto packed = logits(ids, {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2}, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 0});
  auto alone = [&](int64_t begin, int64_t count) {
    std::vector<int32_t> own(kContext, 0), document(kContext, 1), position(kContext, 0);
    for (int64_t i = 0; i < count; ++i)
      own[i] = ids[begin + i], document[i] = 0, position[i] = static_cast<int32_t>(i);
    return logits(own, document, position);
  };
  double apart = 0;
  for (auto [begin, count] : {std::pair<int64_t, int64_t>{0, 5}, {5, 6}}) {
    const auto one = alone(begin, count);
    for (int64_t i = 0; i < count * kVocab; ++i)
      apart = std::max(apart, std::abs(double{packed[begin * kVocab + i]} - one[i]));
  }
  EXPECT_LT(apart, 1e-6);
  // A row that is one document is another thing.
  const auto whole = logits(ids, std::vector<int32_t>(kContext, 0), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  double other = 0;
  for (int64_t i = 5 * kVocab; i < 11 * kVocab; ++i)
    other = std::max(other, std::abs(double{packed[i]} - whole[i]));
  EXPECT_GT(other, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Families, PackedDocuments,
                         testing::Values("gpt", "llama", "qwen", "mistral", "gemma"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DocumentRows, OnlyWhileItLives) {
  EXPECT_FALSE(DocumentRows::active());
  {
    DocumentRows rows({}, {});
    EXPECT_TRUE(DocumentRows::active());
  }
  EXPECT_FALSE(DocumentRows::active());
  EXPECT_FALSE(DocumentRows::positions().defined());
}

}  // namespace
}  // namespace lockstep
