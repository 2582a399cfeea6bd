// BlockWriters: threads that write blocks of one file while the caller produces the next ones.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

// Each block is written at its offset in the file; if the storage writes front to back only, one thread
// writes in the order of put(). A block may carry other work (such as sums over it), which its thread does
// before the write.
class BlockWriters {
 public:
  // `rooms`: how many blocks may be under way at a time; a room is a buffer, and `room_of(i)` gives the i-th
  // one on first use.
  BlockWriters(OutFile& file, int threads, size_t rooms, std::function<std::byte*(size_t)> room_of);
  ~BlockWriters();  // blocks that no thread has started are dropped
  BlockWriters(const BlockWriters&) = delete;

  // Both wait while as many blocks are under way as there are rooms, and throw what a thread threw.
  std::byte* room();
  // `data` must stay valid until it is written; if it is the last room(), that is free again afterwards. The
  // caller writes a small block at once.
  void put(int64_t offset, const std::byte* data, size_t bytes, std::function<void()> work);
  // Waits until all is written; throws what a thread threw.
  void finish();

 private:
  struct Block {
    int64_t offset;
    const std::byte* data;
    size_t bytes;
    std::function<void()> work;
    int room;  // -1: none
  };
  void write(const Block& block);
  void run();
  void start();
  void raise();  // under lock

  OutFile& file_;
  const int threads_;
  const size_t most_;
  const std::function<std::byte*(size_t)> room_of_;
  std::mutex guard_;
  std::condition_variable changed_;
  std::deque<Block> waiting_;
  std::vector<int> free_;
  size_t made_ = 0;       // rooms
  size_t under_way_ = 0;  // blocks
  int held_ = -1;         // the room that the caller fills
  bool over_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> running_;
};

}  // namespace lockstep::checkpoint
