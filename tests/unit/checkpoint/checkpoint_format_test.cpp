// Checkpoint files: the safetensors header, the manifest, tiling and checksums, there and back.
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/format/checksum.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/format/tiling.h"
#include "core/base/hash.h"
#include "core/base/text.h"

namespace lockstep {

using namespace checkpoint;

namespace {

TEST(Safetensors, AnEmptyDtypeIsDamage) {
  const std::string json = R"({"a":{"dtype":"","shape":[1],"data_offsets":[0,4]}})";
  try {
    parse_safetensors_header(json, 8 + static_cast<int64_t>(json.size()) + 4, "w.safetensors");
    ADD_FAILURE() << "was read";
  } catch (const DamagedError& error) {
    EXPECT_STREQ(error.what(), "w.safetensors: a: \"dtype\" is \"\"; a type belongs there, as in \"F32\"");
  }
}

// A dtype that no tensor here has spoils the tensor, not the file.
TEST(Safetensors, OtherDTypesKeepTheirWord) {
  const std::string json =
      R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"I16","shape":[2],"data_offsets":[4,8]},)"
      R"("c":{"dtype":"F8_E8M0","shape":[],"data_offsets":[8,9]},"d":{"dtype":"F4","shape":[2],"data_offsets":[9,10]},)"
      R"("e":{"dtype":"X7","shape":[3],"data_offsets":[10,12]},"w":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})";
  const auto parsed = parse_safetensors_header(json, 8 + static_cast<int64_t>(json.size()) + 16, "f");
  std::vector<std::string> types;
  for (const auto& tensor : parsed.tensors) types.push_back(type_text(tensor));
  EXPECT_EQ(types, (std::vector<std::string>{"I8[4]", "I16[2]", "F8_E8M0[]", "F4[2]", "X7[3]", "f32[1]"}));
  auto again = parsed.tensors;
  const std::string header = make_safetensors_header(again, {});
  const auto read_back =
      parse_safetensors_header(header.substr(8), static_cast<int64_t>(header.size()) + 16, "again");
  for (size_t i = 0; i < parsed.tensors.size(); ++i) {
    EXPECT_EQ(type_text(read_back.tensors[i]), type_text(parsed.tensors[i]));
    EXPECT_EQ(read_back.tensors[i].bytes, parsed.tensors[i].bytes);
  }
}

TEST(Checksum, PiecesGiveTheValueOfTheWhole) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * 31 + i / 7);
  for (size_t piece : {1u, 3u, 64u, 1000u, 5000u}) {
    Checksum sum;
    for (size_t at = 0; at < bytes.size(); at += piece)
      sum.add(bytes.data() + at, std::min(piece, bytes.size() - at));
    EXPECT_EQ(sum.value(), hash64(bytes)) << piece;
  }
  EXPECT_EQ(Checksum().value(), hash64(""));
  EXPECT_EQ(parse_checksum(checksum_text(0x0123456789abcdefull)), 0x0123456789abcdefull);
  EXPECT_EQ(checksum_text(1), "0000000000000001");
  for (const char* bad : {"", "1", "0123456789ABCDEF", "0123456789abcdeg", "0123456789abcdef0"})
    EXPECT_FALSE(parse_checksum(bad)) << bad;
}

TEST(Safetensors, HeaderByTheLetter) {
  std::vector<SafeTensor> tensors{
      {"w", DType::f32, {2, 3}, 0, 0}, {"s", DType::bf16, {}, 0, 0}, {"none", DType::u8, {0, 7}, 0, 0}};
  std::string header = make_safetensors_header(tensors, {{"step", "3"}});
  EXPECT_EQ(header.size() % 64, 0u);
  uint64_t length = 0;
  std::memcpy(&length, header.data(), 8);
  EXPECT_EQ(length + 8, header.size());
  EXPECT_EQ(
      trim(header.substr(8)),
      R"({"__metadata__":{"step":"3"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("s":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},"none":{"dtype":"U8","shape":[0,7],"data_offsets":[26,26]}})");
  EXPECT_EQ(tensors[1].offset, static_cast<int64_t>(header.size()) + 24);
  int64_t file_bytes = static_cast<int64_t>(header.size()) + 26;
  EXPECT_EQ(safetensors_header_length(header.substr(0, 8), file_bytes, "f"), static_cast<int64_t>(length));
  auto parsed = parse_safetensors_header(header.substr(8), file_bytes, "f");
  ASSERT_EQ(parsed.tensors.size(), 3u);
  EXPECT_EQ(parsed.data_start, static_cast<int64_t>(header.size()));
  EXPECT_EQ(parsed.metadata.at("step"), "3");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parsed.tensors[i].name, tensors[i].name);
    EXPECT_EQ(parsed.tensors[i].dtype, tensors[i].dtype);
    EXPECT_EQ(parsed.tensors[i].shape, tensors[i].shape);
    EXPECT_EQ(parsed.tensors[i].offset, tensors[i].offset);
    EXPECT_EQ(parsed.tensors[i].bytes, tensors[i].bytes);
  }
}

TEST(Safetensors, NoTensorsAtAll) {
  std::vector<SafeTensor> none;
  std::string header = make_safetensors_header(none, {});
  auto parsed = parse_safetensors_header(header.substr(8), static_cast<int64_t>(header.size()), "f");
  EXPECT_TRUE(parsed.tensors.empty());
}

TEST(Tiling, ExactCovers) {
  check_tiling({4, 6}, {{{0, 0}, {4, 6}}}, "t");
  check_tiling({4, 6}, {{{0, 0}, {4, 2}}, {{0, 2}, {1, 4}}, {{1, 2}, {3, 4}}}, "t");
  check_tiling({}, {{{}, {}}}, "t");
  check_tiling({0, 6}, {}, "t");
  check_tiling({0, 6}, {{{0, 0}, {0, 6}}}, "t");
  EXPECT_THROW(check_tiling({}, {}, "t"), DamagedError);
  EXPECT_THROW(check_tiling({1}, {{{0}, {1}}, {{0}, {1}}}, "t"), DamagedError);
}

Manifest sample() {
  Manifest m;
  m.step = 20;
  m.serial = 3;
  m.state_hash = std::string(32, 'a');
  m.certificate = "cert";
  m.producer = "lockstep test";
  m.mesh = {{2}, {"dp_shard"}};
  m.config = {{"lr", 3e-4}, {"name", "caf\xc3\xa9 \"x\""}, {"betas", {0.9, 0.95}}};
  m.extra = {{"scale", 65536.0}};
  m.files = {{"rank-0.safetensors", 64 + 24, 64, 7}, {"rank-1.safetensors", 64 + 12 + 2, 64, 8}};
  m.tensors = {{"w",
                DType::f32,
                {3, 3},
                {{"rank-0.safetensors", 64, 24, {{0, 0}, {2, 3}}, 11},
                 {"rank-1.safetensors", 64, 12, {{2, 0}, {1, 3}}, 0xffffffffffffffffull}}},
               {"s", DType::bf16, {}, {{"rank-1.safetensors", 76, 2, {{}, {}}, 13}}},
               {"none", DType::f32, {0, 3}, {}}};
  return m;
}

TEST(Manifest, ThereAndBack) {
  Manifest m = sample();
  std::string text = to_text(m);
  Manifest back = parse_manifest(text, "manifest.json");
  EXPECT_EQ(to_text(back), text);
  EXPECT_EQ(back.config, m.config);
  EXPECT_EQ(back.extra, m.extra);
  EXPECT_EQ(back.mesh, m.mesh);
  EXPECT_EQ(back.step, 20);
  EXPECT_EQ(back.serial, 3);
  ASSERT_EQ(back.tensors.size(), 3u);
  EXPECT_EQ(back.tensors[0].chunks[1].box, m.tensors[0].chunks[1].box);
  EXPECT_EQ(back.tensors[0].chunks[1].xxh3, 0xffffffffffffffffull);
  EXPECT_EQ(back.find("s")->dtype, DType::bf16);
  EXPECT_EQ(back.find("t"), nullptr);
  EXPECT_EQ(back.find_file("rank-1.safetensors")->bytes, 78);
}

// Any one byte changed, removed or added: an error, or (white space, say) exactly the same manifest. Never
// another one, never a crash.
TEST(Manifest, NoByteCanChangeUnnoticed) {
  std::string text = to_text(sample());
  int accepted = 0;
  for (size_t at = 0; at < text.size(); ++at)
    for (int change = 0; change < 4; ++change) {
      std::string other = text;
      if (change == 0) other[at] = static_cast<char>(other[at] ^ 1);
      if (change == 1) other[at] = static_cast<char>(other[at] ^ 0x80);
      if (change == 2) other.erase(at, 1);
      if (change == 3) other.insert(at, 1, '9');
      try {
        EXPECT_EQ(to_text(parse_manifest(other, "m")), text) << "byte " << at << " change " << change;
        ++accepted;
      } catch (const UserError& e) { EXPECT_EQ(std::string(e.what()).substr(0, 1), "m") << e.what(); }
    }
  EXPECT_LT(accepted, 200);  // white space only
  for (size_t size = 0; size + 2 < text.size(); ++size)
    EXPECT_THROW(parse_manifest(text.substr(0, size), "m"), DamagedError) << size;
}

TEST(Safetensors, AnyChangedByteIsAnErrorOrAnotherSoundHeader) {
  std::vector<SafeTensor> tensors{{"w", DType::f32, {2, 3}, 0, 0}, {"s", DType::bf16, {}, 0, 0}};
  std::string header = make_safetensors_header(tensors, {{"step", "3"}});
  int64_t bytes = static_cast<int64_t>(header.size()) + 26;
  for (size_t at = 0; at < header.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = header;
      other[at] = static_cast<char>(other[at] ^ (1 << bit));
      try {
        int64_t length = safetensors_header_length(other.substr(0, 8), bytes, "f");
        std::string json = (other + std::string(26, '\0')).substr(8, static_cast<size_t>(length));
        auto parsed = parse_safetensors_header(json, bytes, "f");
        int64_t sum = 0;
        for (const auto& tensor : parsed.tensors) sum += tensor.bytes;
        EXPECT_EQ(sum, bytes - parsed.data_start);
      } catch (const UserError&) {}
    }
}

}  // namespace
}  // namespace lockstep
