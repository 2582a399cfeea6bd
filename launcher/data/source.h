// One data file as a row of tokens: text as bytes, or stored uint16 / uint32 (little-endian), with or without
// the 1024-byte header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/files/descriptor.h"

namespace lockstep::launcher::data {

// Identity of a file and its content: the key of cached results.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0, written_ns = 0, changed_ns = 0;  // mtime and ctime
  bool operator==(const FileStamp&) const = default;
};

// The bytes of a regular file, read through a descriptor that stays open: a deleted or replaced file stays
// readable, and a truncated one gives an error with its name, never a memory fault. Files below 1 MiB are
// kept in memory instead, because descriptors are limited. Throws UserError if the system refuses to open or
// read the file, and for a FIFO, a device or a folder, without blocking on one.
class FileBytes {
 public:
  explicit FileBytes(const std::string& path);
  // Bytes in memory that were derived from the file `path`.
  FileBytes(const std::string& path, std::vector<std::byte> bytes);
  int64_t size() const { return stamp_.bytes; }  // when it was opened
  const FileStamp& stamp() const { return stamp_; }
  // Reads bytes offset..offset+bytes-1. UserError naming the file and both sizes when it is shorter.
  void read(int64_t offset, void* out, int64_t bytes) const;
  // Whether the opened file has changed, judged by size and modification time. False for one in memory.
  bool changed() const;

 private:
  std::string path_;
  FileStamp stamp_;
  Descriptor fd_;
  std::vector<std::byte> copy_;
};

// True if the first 8 KiB do not look like text: a NUL byte, or more than one control byte in 20 (white
// space, backspace and escape are text; so is every byte from 128 up, hence both UTF-8 and Latin-1).
bool looks_binary(const std::byte* data, int64_t size);

// The header of llm.c's token files: int32[256] with magic, version and token count first; uint16 tokens
// follow.
inline constexpr int32_t kTokenMagic = 20240520;
inline constexpr int64_t kTokenHeaderBytes = 1024;

// A range of a file whose CRC-32 the file itself states, such as a member of an archive.
struct SummedBytes {
  std::string name;
  int64_t begin = 0, size = 0;
  uint32_t crc = 0;
};

struct Source {
  std::string path;
  FileBytes bytes;
  std::vector<SummedBytes> sums = {};  // verified when the whole file is read (scan)
  int width = 1;                       // bytes per token: 1, 2 or 4
  int64_t header = 0;                  // bytes before the first token
  int64_t tokens = 0;

  // Text: one token per byte.
  static Source text(const std::string& path);
  // Stored tokens of `width` 2 or 4 bytes; a header is recognised by its magic. Throws UserError: empty file,
  // a size that is not a multiple of width, and with a header: an unknown version, a file shorter or longer
  // than the header's count says, width 4; and for something like a header with another magic.
  static Source stored(const std::string& path, int width);

  // The first bytes, at most `most`.
  std::vector<std::byte> head(int64_t most) const;
  // out[0..count-1] = tokens begin..begin+count-1. Throws UserError naming file, token and byte offset if a
  // token is >= vocab.
  void read(int64_t begin, int64_t count, int64_t vocab, int32_t* out) const;
  // The message of that error.
  std::string beyond_vocab(int64_t token, uint32_t id, int64_t vocab) const;
};

}  // namespace lockstep::launcher::data
