// Stores in the cache: written aside under a lock, renamed when whole.
#include "launcher/data/token_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/private_file.h"
#include "core/base/trusted_path.h"
#include "launcher/data/cache_lock.h"

namespace lockstep::launcher::data {

namespace {
constexpr uint64_t kMagic = 0x33534e454b4f544c;  // "LTOKENS3"
constexpr size_t kFlushAt = size_t{8} << 20;

struct Header {
  uint64_t magic = kMagic, key = 0;
  int64_t tokens = 0, documents = 0;
  uint64_t sum = 0;  // of the members above
  std::byte rest[TokenStore::kHeader - 40] = {};
  uint64_t check() const { return hash64(this, 32); }
};
static_assert(sizeof(Header) == TokenStore::kHeader);

// A store that is whole, of this key.
std::optional<TokenStore> opened(FileBytes bytes, uint64_t key) {
  Header header;
  if (bytes.size() < TokenStore::kHeader) return {};
  bytes.read(0, &header, sizeof header);
  if (header.magic != kMagic || header.key != key || header.sum != header.check() || header.tokens < 0 ||
      header.documents < 0)
    return {};
  const int64_t starts = TokenStore::kHeader + (header.tokens * 4 + 7) / 8 * 8;
  if (bytes.size() != starts + (header.documents + 1) * 8) return {};
  return TokenStore{std::move(bytes), header.tokens, header.documents};
}

std::optional<TokenStore> kept(const TrustedOpen& folder, const std::string& name, const std::string& path,
                               uint64_t key) {
  const TrustedOpen file = open_trusted_in(folder.file, name, path);
  if (!file) return {};
  return opened(FileBytes(path), key);
}

TokenStore in_memory(const std::string& path, uint64_t key, const std::function<void(TokenWriter&)>& make) {
  TokenWriter writer(-1);
  make(writer);
  writer.finish(key);
  auto store = opened(FileBytes(path, writer.take()), key);
  LS_CHECK(store, path);
  return std::move(*store);
}
}  // namespace

void TokenStore::read(int64_t begin, std::span<uint32_t> out) const {
  LS_CHECK(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= tokens, begin, " of ", tokens);
  bytes.read(kHeader + begin * 4, out.data(), static_cast<int64_t>(out.size_bytes()));
}

std::vector<int64_t> TokenStore::starts() const {
  std::vector<int64_t> out(static_cast<size_t>(documents) + 1);
  bytes.read(kHeader + (tokens * 4 + 7) / 8 * 8, out.data(), static_cast<int64_t>(out.size()) * 8);
  return out;
}

void TokenWriter::put(const void* data, size_t bytes) {
  if (buffer_.empty() && starts_.size() == 1) buffer_.resize(TokenStore::kHeader);
  const auto* from = static_cast<const std::byte*>(data);
  buffer_.insert(buffer_.end(), from, from + bytes);
  if (fd_ >= 0 && buffer_.size() >= kFlushAt) flush();
}

void TokenWriter::flush() {
  if (const int code = write_fully(fd_, buffer_.data(), buffer_.size()))
    throw UserError(str("data: cannot keep tokens in ", path_, ": ", std::strerror(code),
                        "; make room, or name another folder in LOCKSTEP_CACHE"));
  buffer_.clear();
}

void TokenWriter::document(std::span<const uint32_t> tokens) {
  put(tokens.data(), tokens.size_bytes());
  starts_.push_back(starts_.back() + static_cast<int64_t>(tokens.size()));
}

void TokenWriter::finish(uint64_t key) {
  put(nullptr, 0);
  const std::byte padding[4] = {};
  if (starts_.back() % 2) put(padding, 4);
  put(starts_.data(), starts_.size() * 8);
  Header header;
  header.key = key, header.tokens = starts_.back();
  header.documents = static_cast<int64_t>(starts_.size()) - 1;
  header.sum = header.check();
  if (fd_ < 0) {
    std::memcpy(buffer_.data(), &header, sizeof header);
    return;
  }
  flush();
  if (::lseek(fd_, 0, SEEK_SET) != 0) LS_CHECK(false, std::strerror(errno));
  buffer_.resize(sizeof header);
  std::memcpy(buffer_.data(), &header, sizeof header);
  flush();
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
  const Descriptor lock = open_private(name + ".lock", O_RDWR, at.file.get());
  if (!lock || !lock_entry(lock.get())) return in_memory(path, key, counted);
  if (auto store = kept(at, file, shown, key)) return std::move(*store);
  {
    const Descriptor out = create_private(part, O_WRONLY, at.file.get());
    if (!out) return in_memory(path, key, counted);
    TokenWriter writer(out.get());
    writer.path(at.resolved + "/" + part);
    try {
      counted(writer);
      writer.finish(key);
    } catch (...) {
      ::unlinkat(at.file.get(), part.c_str(), 0);
      throw;
    }
  }
  if (too_young(stamp) || from.changed()) {
    FileBytes bytes(at.resolved + "/" + part);
    ::unlinkat(at.file.get(), part.c_str(), 0);
    auto store = opened(std::move(bytes), key);
    LS_CHECK(store, shown);
    return std::move(*store);
  }
  if (::renameat(at.file.get(), part.c_str(), at.file.get(), file.c_str()) == 0)
    if (auto store = kept(at, file, shown, key)) return std::move(*store);
  return in_memory(path, key, counted);
}

}  // namespace lockstep::launcher::data
