// TokenStore: the tokenized documents of a data file, made once and cached until the file changes.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "launcher/data/source.h"

namespace lockstep::launcher::data {

// Bits of a stored token: whether it counts as a target, and its id.
inline constexpr uint32_t kCounts = uint32_t{1} << 31;

// A store: 64 bytes of header, tokens (uint32), the first token of each document and their end (int64), and
// messages to log whenever the file is read.
struct TokenStore {
  FileBytes bytes;
  int64_t tokens = 0, documents = 0;

  static constexpr int64_t kHeader = 64;
  // Tokens begin ... begin + out.size() - 1.
  void read(int64_t begin, std::span<uint32_t> out) const;
  std::vector<int64_t> starts() const;  // of documents + 1
  std::string notes() const;
};

class TokenWriter {
 public:
  explicit TokenWriter(int fd);  // `fd`: an empty file; -1: in memory
  void document(std::span<const uint32_t> tokens);
  void note(const std::string& text) { notes_ += text; }
  void finish(uint64_t key);  // writes the rest, and syncs the file
  std::vector<std::byte> take() { return std::move(buffer_); }

 private:
  void put(const void* data, size_t bytes);
  void flush();
  int fd_;
  std::vector<std::byte> buffer_;
  uint64_t body_ = 0;  // checksum of the bytes after the header
  std::vector<int64_t> starts_{0};
  std::string notes_;
};

// The store of `from`. `make` creates it unless the cache has one for the current file and `how` (everything
// else that determines the tokens). If several processes need one at once, one makes it. A cached store is
// verified against its checksum, at 5 to 10 GB a second from the page cache; a damaged one is made again,
// with a warning. Nothing is cached for a file written moments ago, or without a folder that can be created,
// trusted and written.
// `made` counts the bytes read from files for it.
TokenStore token_store(const FileBytes& from, const std::string& path, const std::string& how,
                       const std::string& folder, const std::function<void(TokenWriter&)>& make,
                       int64_t& made);

}  // namespace lockstep::launcher::data
