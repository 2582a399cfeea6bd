// One data file as a row of tokens: text as bytes, or stored uint16 / uint32 (little-endian), with or without
// the 1024-byte header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/descriptor.h"

namespace lockstep::launcher::data {

// Which file it is, and which content: what a cache of something about the content is kept by.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0, written_ns = 0, changed_ns = 0;  // mtime and ctime
  bool operator==(const FileStamp&) const = default;
};

// The bytes of a plain file. It is read through its descriptor, held from here on: a file that is deleted or
// replaced meanwhile stays readable, and one that becomes shorter is an error with its name, never a fault of
// memory. Files below 1 MiB are kept in memory instead, because a process has a limited number of
// descriptors. Throws UserError if the system refuses to open or read the file, and for a FIFO, a device or a
// folder, without waiting for one.
class FileBytes {
 public:
  explicit FileBytes(const std::string& path);
  // Bytes that were made of the file `path`, in memory.
  FileBytes(const std::string& path, std::vector<std::byte> bytes);
  int64_t size() const { return stamp_.bytes; }  // when it was opened
  const FileStamp& stamp() const { return stamp_; }
  // Bytes offset..offset+bytes-1. UserError naming the file and both sizes when it ends before.
  void read(int64_t offset, void* out, int64_t bytes) const;
  // Whether the file that was opened has other bytes now, as far as its size and time of writing tell. False
  // for one that is in memory.
  bool changed() const;

 private:
  std::string path_;
  FileStamp stamp_;
  Descriptor fd_;
  std::vector<std::byte> copy_;
};

// True if the first 8 KiB look like no text: a NUL byte, or more than one control byte in 20 (white space,
// backspace and escape are text; so is every byte from 128 up, hence UTF-8 and Latin-1 alike).
bool looks_binary(const std::byte* data, int64_t size);

// The header of llm.c's token files: int32[256] with magic, version and token count first; uint16 tokens
// follow.
inline constexpr int32_t kTokenMagic = 20240520;
inline constexpr int64_t kTokenHeaderBytes = 1024;

// Bytes of a file whose CRC-32 the file itself says, as an archive does of its members.
struct SummedBytes {
  std::string name;
  int64_t begin = 0, size = 0;
  uint32_t crc = 0;
};

struct Source {
  std::string path;
  FileBytes bytes;
  std::vector<SummedBytes> sums = {};  // compared where the whole file is read (scan)
  int width = 1;                       // bytes per token: 1, 2 or 4
  int64_t header = 0;                  // bytes before the first token
  int64_t tokens = 0;

  // Text, a byte a token.
  static Source text(const std::string& path);
  // Stored tokens of `width` 2 or 4 bytes; a header is recognised by its magic. Throws UserError: empty file,
  // a size that is no multiple of width, and with a header: an unknown version, a file shorter or longer than
  // the header's count says, width 4; and for what looks like a header of another magic.
  static Source stored(const std::string& path, int width);

  // The first bytes, at most `most`.
  std::vector<std::byte> head(int64_t most) const;
  // out[0..count-1] = tokens begin..begin+count-1. Throws UserError naming file, token and byte offset if a
  // token is >= vocab.
  void read(int64_t begin, int64_t count, int64_t vocab, int32_t* out) const;
  // The text of that error.
  std::string beyond_vocab(int64_t token, uint32_t id, int64_t vocab) const;
};

}  // namespace lockstep::launcher::data
