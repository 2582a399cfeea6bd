// Event files read back record by record, by a reader that shares nothing with the writer.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <map>

#include "core/base/error.h"
#include "core/base/log.h"
#include "launcher/report/event_file.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

// Bit by bit, by the polynomial as it is published (0x1EDC6F41, the lowest bit first).
uint32_t crc_by_bits(std::string_view bytes) {
  uint32_t out = 0xffffffff;
  for (char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = ((out ^ (static_cast<uint8_t>(c) >> bit)) & 1) != 0;
      out = (out >> 1) ^ (one ? 0x82f63b78u : 0);
    }
  return out ^ 0xffffffff;
}
template <class T>
T take(std::string_view& bytes) {
  T out{};
  if (bytes.size() < sizeof out) throw std::runtime_error("torn");
  std::memcpy(&out, bytes.data(), sizeof out);
  bytes.remove_prefix(sizeof out);
  return out;
}
uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}
std::vector<std::string> records_of(std::string_view bytes) {
  std::vector<std::string> out;
  while (!bytes.empty()) {
    const std::string_view frame = bytes.substr(0, 8);
    const auto length = take<uint64_t>(bytes);
    EXPECT_EQ(unmasked(take<uint32_t>(bytes)), crc_by_bits(frame));
    out.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(std::min<size_t>(bytes.size(), length));
    EXPECT_EQ(unmasked(take<uint32_t>(bytes)), crc_by_bits(out.back()));
  }
  return out;
}

// A message's fields by number: as text of what their wire type holds.
uint64_t take_varint(std::string_view& bytes) {
  uint64_t out = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<uint8_t>(bytes);
    out |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return out;
  }
}
std::multimap<int, std::string> fields_of(std::string_view bytes) {
  std::multimap<int, std::string> out;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    std::string value;
    if ((key & 7) == 0) {
      value = str(take_varint(bytes));
    } else {
      const size_t length = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : take_varint(bytes);
      value = bytes.substr(0, length);
      bytes.remove_prefix(length);
    }
    out.emplace(static_cast<int>(key >> 3), value);
  }
  return out;
}
std::map<std::string, float> scalars_of(const std::string& event) {
  std::map<std::string, float> out;
  for (auto [field, summary] : fields_of(event))
    if (field == 5)
      for (auto [inner, value] : fields_of(summary)) {
        const auto parts = fields_of(value);
        std::string_view number = parts.find(2)->second;
        out[parts.find(1)->second] = take<float>(number);
      }
  return out;
}

TEST(EventFile, ChecksumsAreThePublishedOnes) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(""), 0u);
  std::string all;
  for (int i = 0; i < 1000; ++i) all += static_cast<char>(i * 7);
  EXPECT_EQ(crc32c(all), crc_by_bits(all));
  EXPECT_EQ(unmasked(masked_crc32c(all)), crc32c(all));
}

TEST(EventFile, RecordsReadBack) {
  ScratchFolder folder;
  {
    EventWriter writer(folder.path(""), 0);
    writer.write(MetricsRow(10).add("loss", 2.413f).add("lr", 3e-4).add("certificate", std::string("ab")));
    writer.write(MetricsRow(int64_t{1} << 40).add("loss", std::nanf("")).add("val_loss", 1.0f / 3));
  }
  const auto files = event_files(folder.path(""));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].substr(0, 20), "events.out.tfevents.");
  const auto records = records_of(read(folder.path(files[0])));
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(fields_of(records[0]).find(3)->second, "brain.Event:2");
  EXPECT_EQ(fields_of(fields_of(records[1]).find(7)->second).find(1)->second, "1") << "START";
  EXPECT_EQ(fields_of(records[1]).find(2)->second, "1");
  EXPECT_EQ(fields_of(records[2]).find(2)->second, "10");
  EXPECT_EQ(scalars_of(records[2]),
            (std::map<std::string, float>{{"train/loss", 2.413f}, {"train/lr", 3e-4f}}));
  EXPECT_EQ(fields_of(records[3]).find(2)->second, "1099511627776");
  EXPECT_TRUE(std::isnan(scalars_of(records[3])["train/loss"]));
  EXPECT_EQ(scalars_of(records[3])["validation/val_loss"], 1.0f / 3);
  std::string_view seconds = records[2];
  seconds.remove_prefix(1);  // the key of wall_time
  EXPECT_NEAR(take<double>(seconds), static_cast<double>(std::time(nullptr)), 100);
}

TEST(EventFile, TagsAreGrouped) {
  for (auto [name, tag] :
       std::initializer_list<std::pair<const char*, const char*>>{{"loss", "train/loss"},
                                                                  {"grad_norm", "train/grad_norm"},
                                                                  {"val_accuracy", "validation/val_accuracy"},
                                                                  {"step_ms", "pace/step_ms"},
                                                                  {"tokens_per_s", "pace/tokens_per_s"},
                                                                  {"busy_ms_median", "pace/busy_ms_median"},
                                                                  {"grad_norm.a.b", "grad_norm/a.b"},
                                                                  {"weight_norm.a.b", "weight_norm/a.b"}})
    EXPECT_EQ(tag_of(name), tag);
}

// Readers take files in the order of their names; a resumed run's comes last, and takes back what it does
// again.
TEST(EventFile, AResumedRunHasANewFileBehindTheOld) {
  ScratchFolder folder;
  std::vector<std::string> written;
  for (int64_t step : {0, 20, 20}) {
    EventWriter writer(folder.path(""), step);
    writer.write(MetricsRow(step + 10).add("loss", 1.0f));
    written.push_back(std::filesystem::path(writer.path()).filename());
  }
  EXPECT_EQ(event_files(folder.path("")), written);
  EXPECT_EQ(fields_of(records_of(read(folder.path(written[2])))[1]).find(2)->second, "21");
}

TEST(EventFile, AFullDiskLeavesWholeRecords) {
  ScratchFolder folder;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::string said, path;
  logs::set_sink([&](int, const std::string& line) { said += line + "\n"; });
  {
    EventWriter writer(folder.path(""), 0);
    path = writer.path();
    writer.write(MetricsRow(1).add("loss", 1.0f));
    rlimit now = before;
    now.rlim_cur = std::filesystem::file_size(path) + 9;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
    for (int64_t step : {2, 3}) writer.write(MetricsRow(step).add("loss", 1.0f));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    writer.write(MetricsRow(4).add("loss", 1.0f));
  }
  logs::set_sink({});
  const auto records = records_of(read(path));
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(fields_of(records[3]).find(2)->second, "4");
  const std::string once =
      "cannot write " + path + ": File too large; the run goes on, and this row is in metrics.jsonl alone";
  EXPECT_NE(said.find(once), std::string::npos) << said;
  EXPECT_EQ(said.find(once), said.rfind(once));
  EXPECT_NE(said.find(path + ": 2 rows of this run are not in it; metrics.jsonl has what it could take"),
            std::string::npos)
      << said;
}

TEST(EventFile, WhatCannotBeWrittenIsRefused) {
  ScratchFolder folder;
  try {
    EventWriter writer(folder.path("none"), 0);
    FAIL() << "written to " << writer.path();
  } catch (const UserError& error) {
    const std::string words = error.what();
    EXPECT_EQ(words.find("cannot write " + folder.path("none") + "/events.out.tfevents."), 0u) << words;
    EXPECT_NE(words.find(": No such file or directory"), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace lockstep
