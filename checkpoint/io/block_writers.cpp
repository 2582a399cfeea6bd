// A bounded queue between the thread that produces blocks and those that write them.
#include "checkpoint/io/block_writers.h"

#include <omp.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace lockstep::checkpoint {

namespace {
constexpr size_t kWorthAThread = 256 << 10;
}  // namespace

BlockWriters::BlockWriters(OutFile& file, int threads, size_t rooms,
                           std::function<std::byte*(size_t)> room_of)
    : file_(file),
      threads_(file.anywhere() ? std::max(threads, 1) : 1),
      most_(std::max<size_t>(rooms, 1)),
      room_of_(std::move(room_of)) {}

BlockWriters::~BlockWriters() {
  {
    std::lock_guard lock(guard_);
    over_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (auto& thread : running_) thread.join();
}

void BlockWriters::raise() {
  if (error_) std::rethrow_exception(error_);
}

std::byte* BlockWriters::room() {
  std::unique_lock lock(guard_);
  changed_.wait(lock, [&] { return error_ || !free_.empty() || made_ < most_; });
  raise();
  if (held_ < 0) {
    if (free_.empty()) free_.push_back(static_cast<int>(made_++));
    held_ = free_.back();
    free_.pop_back();
  }
  return room_of_(static_cast<size_t>(held_));
}

void BlockWriters::put(int64_t offset, const std::byte* data, size_t bytes, std::function<void()> work) {
  std::unique_lock lock(guard_);
  const bool in_room = held_ >= 0 && data == room_of_(static_cast<size_t>(held_));
  Block block{offset, data, bytes, std::move(work), in_room ? std::exchange(held_, -1) : -1};
  // A small block is not worth a thread, but queues if others are under way, to keep the order.
  if (bytes < kWorthAThread && (file_.anywhere() || under_way_ == 0)) {
    raise();
    lock.unlock();
    write(block);
    lock.lock();
    if (block.room >= 0) free_.push_back(block.room);
    return;
  }
  changed_.wait(lock, [&] { return error_ || under_way_ < most_; });
  raise();
  ++under_way_;
  waiting_.push_back(std::move(block));
  if (running_.size() < static_cast<size_t>(threads_) && running_.size() < under_way_) start();
  lock.unlock();
  changed_.notify_all();
}

// If the system has no more threads, fewer do the work; with none, the caller does it.
void BlockWriters::start() {
  try {
    running_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    if (!running_.empty()) return;
    const Block block = std::move(waiting_.front());
    waiting_.pop_front();
    --under_way_;
    write(block);
    if (block.room >= 0) free_.push_back(block.room);
  }
}

void BlockWriters::finish() {
  std::unique_lock lock(guard_);
  changed_.wait(lock, [&] { return error_ || under_way_ == 0; });
  raise();
}

void BlockWriters::write(const Block& block) {
  if (block.work) block.work();
  file_.anywhere() ? file_.write_at(block.offset, block.data, block.bytes)
                   : file_.write(block.data, block.bytes);
}

void BlockWriters::run() {
  omp_set_num_threads(1);  // for this thread: the blocks are the unit of parallel work
  std::unique_lock lock(guard_);
  while (true) {
    changed_.wait(lock, [&] { return over_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Block block = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      write(block);
    } catch (...) { error = std::current_exception(); }
    lock.lock();
    --under_way_;
    if (block.room >= 0) free_.push_back(block.room);
    if (error && !error_) error_ = error, waiting_.clear();
    changed_.notify_all();
  }
}

}  // namespace lockstep::checkpoint
