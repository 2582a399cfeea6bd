// Token stores in the cache: written to a draft under a lock, renamed when complete.
#include "launcher/data/token_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/files/private_file.h"
#include "core/files/trusted_path.h"
#include "core/reading/one_line.h"
#include "launcher/data/cache_lock.h"
#include "launcher/data/tokenizer/stop.h"

namespace lockstep::launcher::data {

namespace {
constexpr uint64_t kMagic = 0x34534e454b4f544c;                            // "LTOKENS4"
constexpr uint64_t kEarlier[] = {0x32534e454b4f544c, 0x33534e454b4f544c};  // without checksum, without notes
constexpr int64_t kBlock = int64_t{8} << 20;  // unit of writes and of the body's checksum

struct Header {
  uint64_t magic = kMagic, key = 0;
  int64_t tokens = 0, documents = 0;
  uint64_t body = 0;  // of all bytes after the header: body_sum
  uint64_t sum = 0;   // of the members above
  std::byte rest[TokenStore::kHeader - 48] = {};
  uint64_t check() const { return hash64(this, 40); }
};
static_assert(sizeof(Header) == TokenStore::kHeader);

// Thrown when the disk cannot store it.
struct NotKept {
  int code;
};

int64_t starts_at(int64_t tokens) { return TokenStore::kHeader + (tokens * 4 + 7) / 8 * 8; }
int64_t notes_at(int64_t tokens, int64_t documents) { return starts_at(tokens) + (documents + 1) * 8; }

uint64_t body_sum(const FileBytes& bytes) {
  uint64_t sum = 0;
  std::vector<std::byte> block(std::min(kBlock, bytes.size() - TokenStore::kHeader));
  for (int64_t at = TokenStore::kHeader; at < bytes.size(); at += kBlock) {
    check_stop();
    const int64_t count = std::min(kBlock, bytes.size() - at);
    bytes.read(at, block.data(), count);
    sum = hash64(block.data(), count, sum);
  }
  return sum;
}

bool rises(const std::vector<int64_t>& starts, int64_t tokens) {
  return starts.front() == 0 && starts.back() == tokens && std::is_sorted(starts.begin(), starts.end());
}

// Opens a complete store with this key; nullopt for one of another file or an earlier version, or, with
// `damaged` set, for a damaged one. Checks in order of cost: size, header checksum, key, then the checksum of
// the whole body.
std::optional<TokenStore> opened(FileBytes bytes, uint64_t key, bool& damaged) {
  Header header;
  damaged = bytes.size() < TokenStore::kHeader;
  if (damaged) return {};
  bytes.read(0, &header, sizeof header);
  if (std::find(std::begin(kEarlier), std::end(kEarlier), header.magic) != std::end(kEarlier)) return {};
  damaged = header.magic != kMagic || header.sum != header.check();
  if (damaged || header.key != key) return {};
  damaged = bytes.size() < notes_at(header.tokens, header.documents) || header.body != body_sum(bytes);
  if (damaged) return {};
  TokenStore out{std::move(bytes), header.tokens, header.documents};
  damaged = !rises(out.starts(), out.tokens);
  if (damaged) return {};
  return out;
}

TokenStore whole(FileBytes bytes, uint64_t key) {
  bool damaged = false;
  auto out = opened(std::move(bytes), key, damaged);
  LS_CHECK(out, "a store of tokens that was just written");
  return std::move(*out);
}

std::optional<TokenStore> kept(const TrustedOpen& folder, const std::string& name, const std::string& path,
                               uint64_t key, bool& damaged) {
  damaged = false;
  const TrustedOpen file = open_trusted_in(folder.file, name, path);
  if (!file) return {};
  return opened(FileBytes(path), key, damaged);
}

TokenStore in_memory(const std::string& path, uint64_t key, const std::function<void(TokenWriter&)>& make) {
  TokenWriter writer(-1);
  make(writer);
  writer.finish(key);
  return whole(FileBytes(path, writer.take()), key);
}
}  // namespace

void TokenStore::read(int64_t begin, std::span<uint32_t> out) const {
  LS_CHECK(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= tokens, begin, " of ", tokens);
  bytes.read(kHeader + begin * 4, out.data(), static_cast<int64_t>(out.size_bytes()));
}

std::vector<int64_t> TokenStore::starts() const {
  std::vector<int64_t> out(static_cast<size_t>(documents) + 1);
  bytes.read(starts_at(tokens), out.data(), static_cast<int64_t>(out.size()) * 8);
  return out;
}

std::string TokenStore::notes() const {
  const int64_t at = notes_at(tokens, documents);
  std::string out(static_cast<size_t>(bytes.size() - at), '\0');
  bytes.read(at, out.data(), static_cast<int64_t>(out.size()));
  return out;
}

TokenWriter::TokenWriter(int fd) : fd_(fd) {
  if (fd_ < 0) buffer_.resize(TokenStore::kHeader);
  if (fd_ >= 0 && ::lseek(fd_, TokenStore::kHeader, SEEK_SET) < 0) throw NotKept{errno};
}

void TokenWriter::put(const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  if (fd_ < 0) {
    buffer_.insert(buffer_.end(), from, from + bytes);
    return;
  }
  while (bytes > 0) {
    const size_t some = std::min(bytes, static_cast<size_t>(kBlock) - buffer_.size());
    buffer_.insert(buffer_.end(), from, from + some);
    from += some, bytes -= some;
    if (buffer_.size() == static_cast<size_t>(kBlock)) flush();
  }
}

void TokenWriter::flush() {
  if (buffer_.empty()) return;
  body_ = hash64(buffer_.data(), buffer_.size(), body_);
  if (const int code = write_fully(fd_, buffer_.data(), buffer_.size())) throw NotKept{code};
  buffer_.clear();
}

void TokenWriter::document(std::span<const uint32_t> tokens) {
  put(tokens.data(), tokens.size_bytes());
  starts_.push_back(starts_.back() + static_cast<int64_t>(tokens.size()));
}

void TokenWriter::finish(uint64_t key) {
  const std::byte padding[4] = {};
  if (starts_.back() % 2) put(padding, 4);
  put(starts_.data(), starts_.size() * 8);
  put(notes_.data(), notes_.size());
  Header header;
  header.key = key, header.tokens = starts_.back();
  header.documents = static_cast<int64_t>(starts_.size()) - 1;
  if (fd_ < 0) {
    for (size_t at = sizeof header; at < buffer_.size(); at += kBlock)
      body_ = hash64(&buffer_[at], std::min<size_t>(kBlock, buffer_.size() - at), body_);
  } else {
    flush();
  }
  header.body = body_, header.sum = header.check();
  if (fd_ < 0) {
    std::memcpy(buffer_.data(), &header, sizeof header);
    return;
  }
  if (::lseek(fd_, 0, SEEK_SET) != 0) throw NotKept{errno};
  if (const int code = write_fully(fd_, &header, sizeof header)) throw NotKept{code};
  if (::fsync(fd_) != 0) throw NotKept{errno};
}

TokenStore token_store(const FileBytes& from, const std::string& path, const std::string& how,
                       const std::string& folder, const std::function<void(TokenWriter&)>& make,
                       int64_t& made) {
  const FileStamp& stamp = from.stamp();
  const uint64_t key = hash64(str(stamp.device, " ", stamp.inode, " ", stamp.bytes, " ", stamp.written_ns,
                                  " ", stamp.changed_ns, " ", how));
  auto counted = [&](TokenWriter& writer) {
    made += from.size();
    make(writer);
  };
  if (folder.empty()) return in_memory(path, key, counted);
  const TrustedOpen at = open_trusted_folder(folder, true);
  if (!at) return in_memory(path, key, counted);
  const std::string name = hash_hex(str(real_path_of(path), " ", how)), file = name + ".tokens",
                    part = name + ".part", shown = at.resolved + "/" + file;
  bool damaged = false;
  // First without the lock, so that the ranks of a host check it in parallel.
  if (auto store = kept(at, file, shown, key, damaged)) return std::move(*store);
  const Descriptor lock = open_private(name + ".lock", O_RDWR, at.file.get());
  if (!lock || !lock_entry(lock.get())) return in_memory(path, key, counted);
  if (auto store = kept(at, file, shown, key, damaged)) return std::move(*store);
  if (damaged)
    logs::warn(str("data: ", shown, ", kept tokens of ", one_line(path), ", is damaged; it is made again"));
  try {
    const Descriptor out = create_private(part, O_WRONLY, at.file.get());
    if (!out) return in_memory(path, key, counted);
    TokenWriter writer(out.get());
    counted(writer);
    writer.finish(key);
  } catch (const NotKept& failed) {
    ::unlinkat(at.file.get(), part.c_str(), 0);
    logs::warn(str("data: tokens of ", one_line(path), " are not kept in ", at.resolved, ": ",
                   std::strerror(failed.code),
                   "; they are made in every run, in memory. Make room, or name "
                   "another folder in LOCKSTEP_CACHE"));
    return in_memory(path, key, counted);
  } catch (...) {
    ::unlinkat(at.file.get(), part.c_str(), 0);
    throw;
  }
  if (too_young(stamp) || from.changed()) {
    FileBytes bytes(at.resolved + "/" + part);
    ::unlinkat(at.file.get(), part.c_str(), 0);
    return whole(std::move(bytes), key);
  }
  if (::renameat(at.file.get(), part.c_str(), at.file.get(), file.c_str()) == 0)
    if (auto store = kept(at, file, shown, key, damaged)) return std::move(*store);
  return in_memory(path, key, counted);
}

}  // namespace lockstep::launcher::data
