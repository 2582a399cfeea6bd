// BlockWriters: places and order, a bounded number of blocks under way, and what a thread throws.
#include "checkpoint/io/block_writers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>

namespace lockstep::checkpoint {
namespace {

constexpr size_t kLarge = 300 << 10;  // worth a thread

// A file in memory that takes its time.
class SlowFile : public OutFile {
 public:
  explicit SlowFile(bool anywhere) : anywhere_(anywhere) {}
  void write(const void* data, size_t bytes) override { put(static_cast<int64_t>(text.size()), data, bytes); }
  bool anywhere() const override { return anywhere_; }
  void write_at(int64_t offset, const void* data, size_t bytes) override { put(offset, data, bytes); }
  void sync() override {}
  void close() override {}
  int64_t bytes() const override { return static_cast<int64_t>(text.size()); }

  std::string text;
  int64_t breaks_at = -1;
  std::atomic<int> most{0};
  std::set<std::thread::id> threads;

 private:
  void put(int64_t offset, const void* data, size_t bytes) {
    const int now = ++under_way_;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::lock_guard lock(guard_);
    most = std::max(most.load(), now);
    --under_way_;
    threads.insert(std::this_thread::get_id());
    if (breaks_at >= 0 && offset >= breaks_at) throw StorageError("broken", "f", EIO);
    const auto end = static_cast<size_t>(offset) + bytes;
    if (text.size() < end) text.resize(end);
    std::memcpy(text.data() + offset, data, bytes);
  }
  const bool anywhere_;
  std::mutex guard_;
  std::atomic<int> under_way_{0};
};

struct Rooms {
  std::vector<std::string> all = std::vector<std::string>(8, std::string(kLarge, '?'));
  std::set<size_t> given;
  std::byte* operator()(size_t i) {
    given.insert(i);
    return reinterpret_cast<std::byte*>(all.at(i).data());
  }
};

// Blocks of all sizes, some in rooms, some where they lie; what a file of them has.
std::string bring(BlockWriters& writers, std::vector<std::string>& kept) {
  std::string want;
  for (int i = 0; i < 40; ++i) {
    const size_t bytes = i % 3 == 0 ? 10 : kLarge - static_cast<size_t>(i);
    const std::string block(bytes, static_cast<char>('a' + i % 26));
    const std::byte* data;
    if (i % 2) {
      std::byte* const room = writers.room();
      std::memcpy(room, block.data(), bytes);
      data = room;
    } else {
      data = reinterpret_cast<const std::byte*>(kept.emplace_back(block).data());
    }
    writers.put(static_cast<int64_t>(want.size()), data, bytes, nullptr);
    want += block;
  }
  writers.finish();
  return want;
}

TEST(BlockWriters, EachBlockIsAtItsPlace) {
  for (bool anywhere : {true, false})
    for (int threads : {1, 3}) {
      SlowFile file(anywhere);
      Rooms rooms;
      std::vector<std::string> kept;
      kept.reserve(40);
      BlockWriters writers(file, threads, 5, std::ref(rooms));
      EXPECT_TRUE(bring(writers, kept) == file.text) << anywhere << " " << threads;
      EXPECT_LE(rooms.given.size(), 5u);
      EXPECT_LE(file.most, anywhere ? threads + 1 : 1);
      if (anywhere && threads > 1) { EXPECT_GT(file.most, 1); }
    }
}

TEST(BlockWriters, EachBlockIsLookedAtOnce) {
  SlowFile file(true);
  Rooms rooms;
  const std::string block(kLarge, 'x');
  std::atomic<int> looked{0};
  BlockWriters writers(file, 2, 3, std::ref(rooms));
  for (int i = 0; i < 20; ++i)
    writers.put(i * static_cast<int64_t>(kLarge), reinterpret_cast<const std::byte*>(block.data()),
                i % 2 ? kLarge : 5, [&] { ++looked; });
  writers.finish();
  EXPECT_EQ(looked, 20);
}

TEST(BlockWriters, WhatAThreadThrowsIsThrown) {
  for (bool anywhere : {true, false}) {
    SlowFile file(anywhere);
    file.breaks_at = 3 * static_cast<int64_t>(kLarge);
    Rooms rooms;
    const std::string block(kLarge, 'x');
    BlockWriters writers(file, 3, 4, std::ref(rooms));
    EXPECT_THROW(
        {
          for (int i = 0; i < 100; ++i) {
            std::byte* const room = writers.room();
            std::memcpy(room, block.data(), kLarge);
            writers.put(i * static_cast<int64_t>(kLarge), room, kLarge, nullptr);
          }
          writers.finish();
        },
        StorageError);
    EXPECT_THROW(writers.finish(), StorageError);
    EXPECT_THROW(writers.room(), StorageError);
  }
}

// What nobody has begun is not waited for.
TEST(BlockWriters, AreLeftWithBlocksUnderWay) {
  SlowFile file(true);
  Rooms rooms;
  const std::string block(kLarge, 'x');
  BlockWriters writers(file, 1, 8, std::ref(rooms));
  for (int i = 0; i < 8; ++i)
    writers.put(i * static_cast<int64_t>(kLarge), reinterpret_cast<const std::byte*>(block.data()), kLarge,
                nullptr);
}

}  // namespace
}  // namespace lockstep::checkpoint
