// Uploads a file to an object store: in one request, or in parts sent in parallel.
#pragma once

#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/storage/s3/client.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint::s3 {

// The object is invisible until close(), which creates or replaces it atomically. Without close() nothing is
// kept. Holds at most kSideBySide + 1 parts in memory. Parts grow with the file, so that a store's limit of
// ten thousand parts suffices for most of a tebibyte.
class Upload : public OutFile {
 public:
  Upload(Client& client, Address at) : client_(client), at_(std::move(at)) {}
  ~Upload() override;
  void write(const void* data, size_t bytes) override;
  void sync() override {}  // close() returns once the store has the object
  void close() override;
  int64_t bytes() const override { return written_; }

 private:
  static constexpr size_t kSideBySide = 4;
  size_t part_bytes() const;
  void start_part();
  void wait_for_oldest();
  void begin();
  void complete();

  Client& client_;
  const Address at_;
  std::string id_;  // of the multipart upload; "": none
  std::string part_;
  std::deque<std::future<std::string>> under_way_;  // of the last parts
  std::vector<std::string> etags_;                  // of those before
  int64_t written_ = 0;
  bool closed_ = false;
};

}  // namespace lockstep::checkpoint::s3
