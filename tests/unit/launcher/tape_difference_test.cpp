// Two tapes of a step: what is named of them.
#include "launcher/cli/look/tape_difference.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lockstep::launcher::cli {
namespace {

using compiler::TapedValue;
using Kind = TapeDifference::Kind;

TapedValue value(int64_t micro_batch, int64_t place, const std::string& made, uint64_t hash) {
  return {micro_batch, place, made, made + " at x.cpp:1", DType::f32, {2, 3}, hash};
}

TEST(TapeDifference, TheFirstThatIsNotTheSame) {
  const std::vector<TapedValue> a = {value(0, -1, "ids", 1), value(0, 0, "mul", 2), value(0, 1, "add", 3),
                                     value(1, -1, "ids", 4), value(1, 0, "mul", 5)};
  EXPECT_EQ(first_difference(a, a).kind, Kind::none);
  EXPECT_EQ(first_difference(a, a).compared, 5);
  auto with = [&](size_t at, TapedValue other) {
    auto b = a;
    b[at] = std::move(other);
    return first_difference(a, b);
  };
  EXPECT_EQ(with(3, value(1, -1, "ids", 9)).kind, Kind::batch);
  EXPECT_EQ(with(3, value(1, -1, "ids", 9)).a.micro_batch, 1);
  EXPECT_EQ(with(2, value(0, 1, "add", 9)).kind, Kind::value);
  EXPECT_EQ(with(2, value(0, 1, "add", 9)).compared, 2);
  EXPECT_EQ(with(2, value(0, 1, "sub", 3)).kind, Kind::graph);
  const auto ended = first_difference(a, {a.begin(), a.begin() + 4});
  EXPECT_EQ(ended.kind, Kind::graph);
  EXPECT_EQ(ended.a.made, "mul");
  EXPECT_EQ(ended.b.words, "");
}

TEST(TapeDifference, TheFirstElement) {
  float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 2, 3, 4, 0.5f, 7};
  auto bytes = [](const float* of) {
    std::vector<std::byte> out(sizeof a);
    std::memcpy(out.data(), of, out.size());
    return out;
  };
  EXPECT_EQ(element_words(value(0, 0, "mul", 0), bytes(a), bytes(b)), "[1,1]: 5 and 0.5 (2 of 6 elements)");
  EXPECT_EQ(element_words(value(0, 0, "mul", 0), bytes(a), bytes(a)), "");
}

}  // namespace
}  // namespace lockstep::launcher::cli
