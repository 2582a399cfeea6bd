// BlockWriters: threads that write blocks of one file, while the one that brings them goes on.
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

// Every write goes to its place in the file, or, where the storage writes front to back only, in the order of
// put() by one thread. Each block may have other work to do (sums over it), by the same thread before it is
// written.
class BlockWriters {
 public:
  // `rooms`: how many blocks may be under way at a time; `room_of(i)` gives the i-th room when it is first
  // wanted.
  BlockWriters(OutFile& file, int threads, size_t rooms, std::function<std::byte*(size_t)> room_of);
  ~BlockWriters();  // what no thread has begun is left out
  BlockWriters(const BlockWriters&) = delete;

  // Both wait while as many blocks are under way as there are rooms, and throw what a thread threw.
  std::byte* room();
  // `data` stays until it is written; where it is the last room() it is free again then. A small one is
  // written at once by the caller.
  void put(int64_t offset, const std::byte* data, size_t bytes, std::function<void()> work);
  // Until all is written; throws what a thread threw.
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
