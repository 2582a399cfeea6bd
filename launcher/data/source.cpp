// Data files: opens them, reads the header, and checks reads.
#include "launcher/data/source.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/reading/lfs_pointer.h"
#include "core/reading/one_line.h"

namespace lockstep::launcher::data {

namespace {

constexpr int64_t kHoldFrom = int64_t{1} << 20;

[[noreturn]] void unreadable(const std::string& path, const std::string& why) {
  throw UserError(str("data.paths: cannot read ", one_line(path), ": ", why));
}

FileStamp stamp_of(int fd, const std::string& path) {
  struct stat at{};
  if (::fstat(fd, &at) != 0) unreadable(path, std::strerror(errno));
  auto ns = [](const timespec& time) {
    return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  };
  return {at.st_dev, at.st_ino, at.st_size, ns(at.st_mtim), ns(at.st_ctim)};
}

// A data set of many files needs as many descriptors, so the limit is raised as far as the system allows.
PlainFile open_of_many(const std::string& path) {
  PlainFile file = open_plain(path);
  rlimit limit{};
  if (file.code != EMFILE || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
    return file;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return file;
  return open_plain(path);
}

template <class Stored>
void read_as(const Source& from, int64_t begin, int64_t count, int64_t vocab, int32_t* out) {
  thread_local std::vector<Stored> stored;
  stored.resize(count);
  from.bytes.read(from.header + begin * static_cast<int64_t>(sizeof(Stored)), stored.data(),
                  count * static_cast<int64_t>(sizeof(Stored)));
  for (int64_t i = 0; i < count; ++i) {
    const Stored token = stored[i];
    if (static_cast<int64_t>(token) >= vocab) [[unlikely]]
      throw UserError(from.beyond_vocab(begin + i, static_cast<uint32_t>(token), vocab));
    out[i] = static_cast<int32_t>(token);
  }
}

// Other formats have a similar header, with a date as magic. Read as tokens it would silently give wrong
// data.
bool looks_like_a_header(const std::vector<std::byte>& head) {
  if (static_cast<int64_t>(head.size()) < kTokenHeaderBytes) return false;
  std::vector<int32_t> words(kTokenHeaderBytes / 4);
  std::memcpy(words.data(), head.data(), kTokenHeaderBytes);
  const int32_t magic = words[0], month = magic / 100 % 100, day = magic % 100;
  const bool date =
      magic >= 20150101 && magic < 21000000 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
  return date && words[1] >= 0 && words[1] < 1000 &&
         std::all_of(words.begin() + 8, words.end(), [](int32_t word) { return word == 0; });
}

}  // namespace

FileBytes::FileBytes(const std::string& path) : path_(path) {
  PlainFile file = open_of_many(path);
  if (file.code == EMFILE)
    unreadable(path, str(file.why,
                         ": each file of 1 MiB or more is held open; give fewer, larger files, or raise the "
                         "limit (ulimit -n)"));
  if (!file.fd) unreadable(path, file.why);
  stamp_ = stamp_of(file.fd.get(), path);
  fd_ = std::move(file.fd);
  if (stamp_.bytes >= kHoldFrom) return;
  std::vector<std::byte> copy(stamp_.bytes);
  read(0, copy.data(), stamp_.bytes);
  if (is_lfs_pointer({reinterpret_cast<const char*>(copy.data()), copy.size()}))
    throw UserError(str("data.paths: ", one_line(path), " ", kLfsPointer));
  copy_ = std::move(copy);
  fd_.reset();
}

FileBytes::FileBytes(const std::string& path, std::vector<std::byte> bytes)
    : path_(path), copy_(std::move(bytes)) {
  stamp_.bytes = static_cast<int64_t>(copy_.size());
}

void FileBytes::read(int64_t offset, void* out, int64_t bytes) const {
  LS_CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= stamp_.bytes, path_, ": bytes ", offset, " + ",
           bytes, " of ", stamp_.bytes);
  if (!fd_) {
    if (bytes) std::memcpy(out, copy_.data() + offset, bytes);
    return;
  }
  const int64_t got = read_fully(fd_.get(), out, bytes, offset);
  if (got == bytes) return;
  if (got < 0) unreadable(path_, str(bytes, " bytes at offset ", offset, ": ", std::strerror(errno)));
  const int64_t now = stamp_of(fd_.get(), path_).bytes;
  unreadable(path_, str("it ended after ", now < stamp_.bytes ? now : offset + got, " of ", stamp_.bytes,
                        " bytes; it became shorter while it was read: put it back and start again"));
}

bool FileBytes::changed() const {
  if (!fd_) return false;
  const FileStamp now = stamp_of(fd_.get(), path_);
  return now.bytes != stamp_.bytes || now.written_ns != stamp_.written_ns;
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
  if (size == 0) throw UserError(str("data.paths: ", one_line(path), " is empty"));

  const std::vector<std::byte> head = out.head(kTokenHeaderBytes);
  int32_t magic = 0;
  if (size >= 4) std::memcpy(&magic, head.data(), 4);
  if (magic == kTokenMagic) {
    if (size < kTokenHeaderBytes)
      throw UserError(str("data.paths: ", one_line(path), " has ", size, " bytes, but its magic ",
                          kTokenMagic, " announces a header of ", kTokenHeaderBytes,
                          "; the file is cut short"));
    int32_t version = 0, count = 0;
    std::memcpy(&version, head.data() + 4, 4);
    std::memcpy(&count, head.data() + 8, 4);
    if (version != 1)
      throw UserError(str("data.paths: ", one_line(path), " has header version ", version,
                          "; version 1 is read (uint16 tokens)"));
    if (width != 2)
      throw UserError(
          str("data.paths: ", one_line(path),
              " has a header of version 1, which means uint16 tokens, but data.dtype is uint32; use uint16"));
    if (count < 0 || kTokenHeaderBytes + 2 * int64_t{count} != size)
      throw UserError(str("data.paths: ", one_line(path), " has ", size, " bytes, but its header counts ",
                          count, " tokens, which makes ", kTokenHeaderBytes + 2 * int64_t{count},
                          "; the file is cut short or its header is wrong"));
    out.header = kTokenHeaderBytes;
    out.tokens = count;
    return out;
  }
  if (looks_like_a_header(head))
    throw UserError(
        str("data.paths: ", one_line(path), " begins with what looks like a header of magic ", magic,
            "; a header of magic ", kTokenMagic,
            " (uint16 tokens) is read, and files without one: write the tokens anew, or cut its first ",
            kTokenHeaderBytes, " bytes off"));
  if (size % width)
    throw UserError(str("data.paths: ", one_line(path), " has ", size, " bytes, which is not a multiple of ",
                        width, " (data.dtype uint", 8 * width, "); wrong dtype, or the file is cut short"));
  out.tokens = size / width;
  return out;
}

void Source::read(int64_t begin, int64_t count, int64_t vocab, int32_t* out) const {
  LS_CHECK(begin >= 0 && count >= 0 && begin + count <= tokens, path, ": tokens ", begin, " + ", count,
           " of ", tokens);
  if (width == 1) read_as<uint8_t>(*this, begin, count, vocab, out);
  if (width == 2) read_as<uint16_t>(*this, begin, count, vocab, out);
  if (width == 4) read_as<uint32_t>(*this, begin, count, vocab, out);
}

std::vector<std::byte> Source::head(int64_t most) const {
  std::vector<std::byte> out(std::min(most, bytes.size()));
  bytes.read(0, out.data(), static_cast<int64_t>(out.size()));
  return out;
}

std::string Source::beyond_vocab(int64_t token, uint32_t id, int64_t vocab) const {
  return str(
      "token id ", id, " at ", one_line(path), ", token ", token, " (byte ", header + token * width,
      ") >= model.vocab ", vocab,
      width == 1
          ? "; set model.vocab to 256 for bytes"
          : "; set model.vocab and data.dtype (of a TokenFile .vocab and .dtype) to those of the file");
}

}  // namespace lockstep::launcher::data
