// One data file as a row of tokens: text as bytes, or stored uint16 / uint32 (little-endian), with or without the 1024-byte header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::data {

// The bytes of a file, read-only. Files of 1 MiB and more are mapped (Boost.Interprocess) and never copied; smaller ones are read,
// because a process has a limited number of mappings. Throws UserError if the system refuses to open, read or map the file.
class FileBytes {
 public:
  explicit FileBytes(const std::string& path);
  const std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  std::shared_ptr<const void> hold_;  // keeps the mapping or the copy
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// True if the first 8 KiB look like no text: a NUL byte, or more than one control byte in 20 (white space, backspace and escape are
// text; so is every byte from 128 up, hence UTF-8 and Latin-1 alike).
bool looks_binary(const std::byte* data, int64_t size);

// The header of llm.c's token files: int32[256] with magic, version and token count first; uint16 tokens follow.
inline constexpr int32_t kTokenMagic = 20240520;
inline constexpr int64_t kTokenHeaderBytes = 1024;

struct Source {
  std::string path;
  FileBytes bytes;
  int width = 1;       // bytes per token: 1, 2 or 4
  int64_t header = 0;  // bytes before the first token
  int64_t tokens = 0;

  // Text, a byte a token.
  static Source text(const std::string& path);
  // Stored tokens of `width` 2 or 4 bytes; a header is recognised by its magic. Throws UserError: empty file, a size that is no multiple
  // of width, and with a header: an unknown version, a file shorter or longer than the header's count says, width 4.
  static Source stored(const std::string& path, int width);

  // out[0..count-1] = tokens begin..begin+count-1. Throws UserError naming file, token and byte offset if a token is >= vocab.
  void read(int64_t begin, int64_t count, int64_t vocab, int32_t* out) const;
  // Hash of name, size, first and last 64 KiB. The folder plays no part, so that data can move.
  uint64_t fingerprint() const;
};

}  // namespace lockstep::data
