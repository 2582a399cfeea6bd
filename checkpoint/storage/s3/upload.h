// A file on its way into an object store: in one request, or in parts that travel side by side.
#pragma once

#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/storage/s3/client.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint::s3 {

// Nothing is seen of the object before close(), which makes it whole at once, in the place of one that had
// its name. Not closed: nothing is kept. Holds at most kSideBySide + 1 parts in memory; parts grow with the
// file, so that the ten thousand that a store takes are enough for most of a tebibyte.
class Upload : public OutFile {
 public:
  Upload(Client& client, Address at) : client_(client), at_(std::move(at)) {}
  ~Upload() override;
  void write(const void* data, size_t bytes) override;
  void sync() override {}  // close() returns when the store has the object
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
  std::string id_;  // of the upload in parts; "": there is none
  std::string part_;
  std::deque<std::future<std::string>> under_way_;  // of the last parts
  std::vector<std::string> etags_;                  // of those before
  int64_t written_ = 0;
  bool closed_ = false;
};

}  // namespace lockstep::checkpoint::s3
