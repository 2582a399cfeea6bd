// Data files: opening, header, checked reads.
#include "launcher/data/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::data {

namespace {

constexpr int64_t kMapFrom = int64_t{1} << 20;

[[noreturn]] void unreadable(const std::string& path, const std::string& why) {
  throw UserError(str("data.paths: cannot read ", path, ": ", why));
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) unreadable(path, std::strerror(errno));
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int64_t size() const {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) unreadable(path_, std::strerror(errno));
    if (!S_ISREG(info.st_mode)) unreadable(path_, "not a regular file");
    return info.st_size;
  }
  void read(std::byte* out, int64_t bytes) const {
    for (int64_t done = 0; done < bytes;) {
      ssize_t got = ::read(fd_, out + done, static_cast<size_t>(bytes - done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) unreadable(path_, std::strerror(errno));
      if (got == 0) unreadable(path_, str("it ended after ", done, " of ", bytes, " bytes; it became shorter while it was read"));
      done += got;
    }
  }

 private:
  const std::string& path_;
  int fd_;
};

template <class Stored>
void read_as(const Source& from, int64_t begin, int64_t count, int64_t vocab, int32_t* out) {
  const std::byte* data = from.bytes.data() + from.header;
  for (int64_t i = 0; i < count; ++i) {
    Stored token;
    std::memcpy(&token, data + (begin + i) * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
    if (static_cast<int64_t>(token) >= vocab) [[unlikely]]
      throw UserError(
          str("token id ", static_cast<uint32_t>(token), " at ", from.path, ", token ", begin + i, " (byte ",
              from.header + (begin + i) * static_cast<int64_t>(sizeof(Stored)), ") >= model.vocab ", vocab,
              sizeof(Stored) == 1 ? "; set model.vocab to 256 for bytes" : "; set model.vocab and data.dtype to those of the file"));
    out[i] = static_cast<int32_t>(token);
  }
}

}  // namespace

FileBytes::FileBytes(const std::string& path) {
  OpenFile file(path);
  size_ = file.size();
  if (size_ < kMapFrom) {
    auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(size_));
    file.read(copy->data(), size_);
    data_ = copy->data();
    hold_ = copy;
    return;
  }
  namespace ipc = boost::interprocess;
  try {
    ipc::file_mapping mapping(path.c_str(), ipc::read_only);
    auto region = std::make_shared<ipc::mapped_region>(mapping, ipc::read_only, 0, static_cast<size_t>(size_));  // outlives the mapping
    data_ = static_cast<const std::byte*>(region->get_address());
    hold_ = region;
  } catch (const ipc::interprocess_exception& why) { unreadable(path, str("cannot map ", size_, " bytes: ", why.what())); }
}

bool looks_binary(const std::byte* data, int64_t size) {
  const int64_t block = std::min<int64_t>(size, 8192);
  int64_t controls = 0;
  for (int64_t i = 0; i < block; ++i) {
    auto byte = static_cast<unsigned char>(data[i]);
    if (byte == 0) return true;
    bool text = byte >= 32 ? byte != 127 : (byte >= 8 && byte <= 13) || byte == 27;
    controls += !text;
  }
  return controls * 20 > block;
}

Source Source::text(const std::string& path) {
  Source out{.path = path, .bytes = FileBytes(path)};
  out.tokens = out.bytes.size();
  return out;
}

Source Source::stored(const std::string& path, int width) {
  LS_CHECK(width == 2 || width == 4, width);
  Source out{.path = path, .bytes = FileBytes(path), .width = width};
  const int64_t size = out.bytes.size();
  if (size == 0) throw UserError(str("data.paths: ", path, " is empty"));

  int32_t magic = 0;
  if (size >= 4) std::memcpy(&magic, out.bytes.data(), 4);
  if (magic == kTokenMagic) {
    if (size < kTokenHeaderBytes)
      throw UserError(str("data.paths: ", path, " has ", size, " bytes, but its magic ", kTokenMagic, " announces a header of ",
                          kTokenHeaderBytes, "; the file is cut short"));
    int32_t version = 0, count = 0;
    std::memcpy(&version, out.bytes.data() + 4, 4);
    std::memcpy(&count, out.bytes.data() + 8, 4);
    if (version != 1) throw UserError(str("data.paths: ", path, " has header version ", version, "; version 1 is read (uint16 tokens)"));
    if (width != 2)
      throw UserError(
          str("data.paths: ", path, " has a header of version 1, which means uint16 tokens, but data.dtype is uint32; use uint16"));
    if (count < 0 || kTokenHeaderBytes + 2 * int64_t{count} != size)
      throw UserError(str("data.paths: ", path, " has ", size, " bytes, but its header counts ", count, " tokens, which makes ",
                          kTokenHeaderBytes + 2 * int64_t{count}, "; the file is cut short or its header is wrong"));
    out.header = kTokenHeaderBytes;
    out.tokens = count;
    return out;
  }
  if (size % width)
    throw UserError(str("data.paths: ", path, " has ", size, " bytes, which is no multiple of ", width, " (data.dtype uint", 8 * width,
                        "); wrong dtype, or the file is cut short"));
  out.tokens = size / width;
  return out;
}

void Source::read(int64_t begin, int64_t count, int64_t vocab, int32_t* out) const {
  LS_CHECK(begin >= 0 && count >= 0 && begin + count <= tokens, path, ": tokens ", begin, " + ", count, " of ", tokens);
  if (width == 1) read_as<uint8_t>(*this, begin, count, vocab, out);
  if (width == 2) read_as<uint16_t>(*this, begin, count, vocab, out);
  if (width == 4) read_as<uint32_t>(*this, begin, count, vocab, out);
}

uint64_t Source::fingerprint() const {
  const int64_t block = std::min<int64_t>(bytes.size(), 64 << 10);
  uint64_t hash = hash64(std::filesystem::path(path).filename().string());
  hash = hash64(str(width, " ", bytes.size()), hash);
  hash = hash64(bytes.data(), static_cast<size_t>(block), hash);
  return hash64(bytes.data() + bytes.size() - block, static_cast<size_t>(block), hash);
}

}  // namespace lockstep::data
