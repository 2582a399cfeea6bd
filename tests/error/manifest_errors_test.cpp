// Manifests and safetensors headers that lie: each is refused with its own words before a data file is
// opened.
#include <gtest/gtest.h>

#include <functional>

#include "checkpoint/format/damage.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/safetensors.h"
#include "core/base/hash.h"
#include "core/base/text.h"

namespace lockstep {

using namespace checkpoint;

namespace {

std::string error_of(const std::function<void()>& run, bool damaged = true) {
  try {
    run();
  } catch (const DamagedError& e) {
    return damaged ? e.what() : str("damaged: ", e.what());
  } catch (const UserError& e) {
    return damaged ? str("not damaged: ", e.what()) : e.what();
  } catch (const std::exception& e) { return str("not a UserError: ", e.what()); }
  return "no error";
}
testing::AssertionResult says(const std::string& message, const std::string& words) {
  if (message.find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << message << "\" does not say \"" << words << "\"";
}
#define EXPECT_SAYS(message, words) EXPECT_TRUE(says(message, words))

Json sound() {
  Manifest m;
  m.step = 20;
  m.serial = 1;
  m.state_hash = std::string(32, 'a');
  m.producer = "lockstep 0.1.0";
  m.files = {{"rank-0.safetensors", 64 + 24 + 4, 64, 7}, {"rank-1.safetensors", 64 + 24, 64, 8}};
  m.tensors = {{"w",
                DType::f32,
                {4, 3},
                {{"rank-0.safetensors", 64, 24, {{0, 0}, {2, 3}}, 1},
                 {"rank-1.safetensors", 64, 24, {{2, 0}, {2, 3}}, 2}}},
               {"b", DType::f32, {1}, {{"rank-0.safetensors", 88, 4, {{0}, {1}}, 3}}}};
  return Json::parse(to_text(m));
}
// The error for a sound manifest after an edit; `resealed` gives it a fitting checksum again.
std::string edited(const std::function<void(Json&)>& edit, bool damaged = true, bool resealed = true) {
  Json json = sound();
  edit(json);
  if (resealed && json.contains("checksum")) {
    json.erase("checksum");
    json["checksum"] = hash_hex(json.dump());
  }
  return error_of([&] { parse_manifest(json.dump(1), "ckpt/step-20/manifest.json"); }, damaged);
}

TEST(ManifestErrors, Soundness) {
  EXPECT_EQ(edited([](Json&) {}), "no error");
}

TEST(ManifestErrors, NotOurs) {
  auto parse = [](const std::string& text) { return error_of([&] { parse_manifest(text, "m"); }); };
  EXPECT_SAYS(parse(""), "m is empty");
  EXPECT_SAYS(parse("{\"format\": 1"), "m: line 1, column ");
  EXPECT_SAYS(parse("[1]"), "m is a JSON array; an object belongs there");
  EXPECT_SAYS(parse("{}"), "key \"format\" is missing");
  EXPECT_SAYS(parse("{\"format\": 1, \"format\": 1}"),
              "m: key \"format\" is given twice in one section; keep one");
  EXPECT_SAYS(parse(std::string(100, '[') + std::string(100, ']')),
              "m: line 1, column 65: nested deeper than 64 lists and sections");
  EXPECT_SAYS(parse("\xff\xfe"), "m: line 1, column ");
}

TEST(ManifestErrors, NewerFormatIsRefusedNotDamaged) {
  EXPECT_SAYS(edited([](Json& j) { j["format"] = 2; }, false),
              "written by a newer Lockstep (\"lockstep 0.1.0\"): format 2, and this one reads up to 1");
  EXPECT_SAYS(edited([](Json& j) { j["byte_order"] = "big"; }, false),
              "byte order is \"big\"; this build reads \"little\"");
  EXPECT_SAYS(edited([](Json& j) { j["format"] = 0; }), "format 0; formats are counted from 1");
}

TEST(ManifestErrors, TypesAndRanges) {
  EXPECT_SAYS(edited([](Json& j) { j["step"] = -1; }), "\"step\" is negative: -1");
  EXPECT_SAYS(edited([](Json& j) { j["step"] = 9223372036854775808ull; }),
              "\"step\" is 9223372036854775808; an integer from 0 to 2^63 - 1 belongs there");
  EXPECT_SAYS(edited([](Json& j) { j["step"] = 1.5; }), "\"step\" is 1.5; an integer");
  EXPECT_SAYS(edited([](Json& j) { j["step"] = "20"; }), "\"step\" is a string; an integer belongs there");
  EXPECT_SAYS(edited([](Json& j) { j.erase("state_hash"); }), "key \"state_hash\" is missing");
  EXPECT_SAYS(edited([](Json& j) { j["certificate"] = 1; }),
              "\"certificate\" is a number; a string belongs there");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"] = Json::array(); }),
              "\"tensors\" is a array; an object belongs there");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["w"]["chunks"] = 1; }),
              "w: \"chunks\" is a number; an array belongs there");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["w"] = 1; }), "w is a number; an object belongs there");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["w"]["dtype"] = "f31"; }), "w: unknown dtype \"f31\"");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["w"]["shape"][0] = 4611686018427387904; }), "passes 2^63");
  EXPECT_SAYS(edited([](Json& j) { j["mesh"]["dim_names"] = {1}; }), "\"dim_names\" holds a number");
  EXPECT_SAYS(edited([](Json& j) { j["mesh"]["shape"] = {1, 2}; }), "2 sizes and 1 names");
}

TEST(ManifestErrors, FilesStayInTheFolder) {
  for (const char* name : {"../rank-0.safetensors", "/etc/passwd", "a/b", "..", ".", "", "a\\b"}) {
    EXPECT_SAYS(edited([&](Json& j) { j["files"][name] = j["files"]["rank-0.safetensors"]; }),
                "leaves the checkpoint folder")
        << name;
    EXPECT_SAYS(edited([&](Json& j) { j["tensors"]["w"]["chunks"][0]["file"] = name; }),
                "leaves the checkpoint folder")
        << name;
  }
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["w"]["chunks"][0]["file"] = "rank-2.safetensors"; }),
              "w: chunk 0: file rank-2.safetensors is not listed");
  EXPECT_SAYS(edited([](Json& j) { j["files"]["rank-0.safetensors"]["header_bytes"] = 4; }),
              "a header of 4 bytes in a file of 92");
  EXPECT_SAYS(edited([](Json& j) { j["files"]["rank-0.safetensors"]["bytes"] = 100; }),
              "has 100 bytes, but its last chunk (b) ends at 92");
  EXPECT_SAYS(edited([](Json& j) { j["files"]["rank-0.safetensors"]["xxh3"] = "12"; }),
              "16 lower-case hex digits belong there");
}

TEST(ManifestErrors, WrongOffsets) {
  auto offset = [](int64_t value) {
    return edited([&](Json& j) { j["tensors"]["b"]["chunks"][0]["offset"] = value; });
  };
  EXPECT_SAYS(offset(84), "b: offset 84 in rank-0.safetensors overlaps w, which ends at 88");
  EXPECT_SAYS(offset(92), "b: chunk 0: bytes 92..96 pass the end of rank-0.safetensors (92 bytes)");
  EXPECT_SAYS(offset(0), "b: chunk 0: offset 0 is inside the header of rank-0.safetensors (64 bytes)");
  EXPECT_SAYS(offset(-4), "\"offset\" is negative: -4");
  EXPECT_SAYS(offset(INT64_MAX), "pass the end of");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["b"]["chunks"][0]["bytes"] = 8; }),
              "8 bytes, but a box of size [1] in f32 takes 4");
  EXPECT_SAYS(edited([](Json& j) {
                j["files"]["rank-0.safetensors"]["bytes"] = 96;
                j["tensors"]["b"]["chunks"][0]["offset"] = 92;
              }),
              "b: offset 92 in rank-0.safetensors leaves a hole after w, which ends at 88");
}

TEST(ManifestErrors, BoxesTileTheTensor) {
  auto box = [](int64_t offset, int64_t size, int64_t bytes) {
    return edited([&](Json& j) {
      Json& chunk = j["tensors"]["w"]["chunks"][1];
      chunk["box"] = {{"offset", {offset, 0}}, {"size", {size, 3}}};
      chunk["bytes"] = bytes;
    });
  };
  EXPECT_SAYS(box(1, 2, 24), "w: boxes [0:2,0:3] and [1:3,0:3] overlap");
  EXPECT_SAYS(box(3, 1, 12), "w: boxes hold 9 of 12 elements; [2:3,0:3] is missing");
  EXPECT_SAYS(box(3, 2, 24), "leaves the tensor of shape [4,3]");
  EXPECT_SAYS(box(2, 0, 0), "holds no element");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["w"]["chunks"][1]["box"]["offset"] = {2}; }),
              "a box has 1 offsets and 2 sizes, the tensor 2 dims");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["w"]["chunks"].push_back(j["tensors"]["w"]["chunks"][0]); }),
              "overlap");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["w"]["chunks"].erase(1); }),
              "boxes hold 6 of 12 elements; [2:4,0:3] is missing");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["w"]["shape"] = {5, 3}; }), "boxes hold 12 of 15 elements");
  EXPECT_SAYS(edited([](Json& j) { j["tensors"]["w"]["dtype"] = "f16"; }),
              "24 bytes, but a box of size [2,3] in f16 takes 12");
  EXPECT_SAYS(edited([](Json& j) {
                j["tensors"]["n"] = {
                    {"dtype", "f32"}, {"shape", {0, 4611686018427387904, 4}}, {"chunks", Json::array()}};
              }),
              "passes 2^63");
  EXPECT_SAYS(edited([](Json& j) {
                Json empty = {{"file", "rank-0.safetensors"},
                              {"offset", 92},
                              {"bytes", 0},
                              {"box", {{"offset", {0}}, {"size", {0}}}},
                              {"xxh3", std::string(16, '0')}};
                j["tensors"]["n"] = {{"dtype", "f32"}, {"shape", {0}}, {"chunks", {empty, empty}}};
              }),
              "2 boxes for a tensor without elements");
}

TEST(ManifestErrors, WhatStructureCannotSeeTheChecksumSees) {
  EXPECT_SAYS(edited([](Json& j) { j["step"] = 21; }, true, false),
              "was changed after it was written: its checksum is ");
  EXPECT_SAYS(edited([](Json& j) { j["config"] = {{"lr", 1}}; }, true, false),
              "was changed after it was written");
  EXPECT_SAYS(edited([](Json& j) { j.erase("checksum"); }), "key \"checksum\" is missing");
}

std::string header_error(const std::string& json, int64_t data_bytes) {
  return error_of([&] {
    parse_safetensors_header(json, 8 + static_cast<int64_t>(json.size()) + data_bytes, "f.safetensors");
  });
}

TEST(SafetensorsErrors, Headers) {
  EXPECT_SAYS(header_error("", 0), "does not begin with '{'");
  EXPECT_SAYS(header_error("{\"w\":1}", 0), "f.safetensors: w is a number; an object belongs there");
  EXPECT_SAYS(header_error(R"({"w":{"dtype":"I16","shape":[3],"data_offsets":[0,3]}})", 3),
              "w: I16[3] takes 6 bytes, but \"data_offsets\" spans 3");
  EXPECT_SAYS(header_error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4),
              "\"data_offsets\" has 1 numbers; begin and end belong there");
  EXPECT_SAYS(header_error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
              "\"data_offsets\" ends at 0, before its begin 4");
  EXPECT_SAYS(header_error(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
              "bytes 0..8 of the data, but the file holds 4; truncated");
  EXPECT_SAYS(header_error(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
              "f32[2] takes 8 bytes, but \"data_offsets\" spans 4");
  EXPECT_SAYS(header_error(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
              "\"shape\"[0] is negative: -1");
  EXPECT_SAYS(
      header_error(R"({"w":{"dtype":"F32","shape":[9223372036854775807,2],"data_offsets":[0,4]}})", 4),
      "passes 2^63");
  EXPECT_SAYS(header_error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8),
              "4 bytes after w belong to no tensor");
  EXPECT_SAYS(
      header_error(
          R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"v":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
          6),
      "v begins at byte");
  EXPECT_SAYS(
      header_error(
          R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"v":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
          12),
      "between w and v belong to no tensor");
  EXPECT_SAYS(
      header_error(
          R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          8),
      "key \"w\" is given twice in one section");
  EXPECT_SAYS(header_error(R"({"__metadata__":{"a":1}})", 0), "\"a\" is a number; a string belongs there");
  EXPECT_SAYS(header_error(R"({"__metadata__":[]})", 0),
              "__metadata__ is a array; an object of strings belongs there");
  auto length = [](uint64_t value, int64_t file_bytes) {
    std::string first(8, '\0');
    for (int i = 0; i < 8; ++i) first[i] = static_cast<char>(value >> (8 * i) & 0xff);
    return error_of([&] { safetensors_header_length(first, file_bytes, "f"); });
  };
  EXPECT_SAYS(length(0, 5), "f is not a safetensors file: it has 5 bytes");
  EXPECT_SAYS(
      length(2336927755350992246, 130),
      "f is a pointer of git-lfs, and the file that it represents is not here; fetch it with git lfs pull");
  EXPECT_SAYS(length(100, 50), "the header's length is 100 bytes, but only 42 follow");
  EXPECT_SAYS(length(uint64_t{1} << 63, 50), "but only 42 follow");
  EXPECT_SAYS(length(200'000'000, 1'000'000'000), "the format allows 100000000");
  std::vector<SafeTensor> reserved{{"__metadata__", DType::f32, {1}, 0, 0}},
      twice{{"w", DType::f32, {1}, 0, 0}, {"w", DType::f32, {1}, 0, 0}};
  EXPECT_SAYS(error_of([&] { make_safetensors_header(reserved, {}); }, false),
              "a tensor cannot be named \"__metadata__\"");
  EXPECT_SAYS(error_of([&] { make_safetensors_header(twice, {}); }, false), "two tensors are named \"w\"");
}

}  // namespace
}  // namespace lockstep
