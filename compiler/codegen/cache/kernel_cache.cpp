// The kernel cache's files: key, seals, atomic writes, reads.
#include "compiler/codegen/cache/kernel_cache.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "core/base/bytes.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/files/trusted_path.h"

namespace lockstep::compiler::cpu {

namespace {
constexpr char kMagic[9] = "LSKERN01";
struct Trailer {
  char isa[16];
  uint64_t bytes;
  uint64_t checksum;  // of the code and the fields above
  char magic[8];
};
uint64_t checksum_of(const char* code, const Trailer& trailer) {
  return hash64(code, trailer.bytes, hash64(&trailer, offsetof(Trailer, checksum)));
}
}  // namespace

std::string seal(const std::string& code, const std::string& isa) {
  Trailer trailer{};
  std::strncpy(trailer.isa, isa.c_str(), sizeof trailer.isa - 1);
  trailer.bytes = code.size();
  trailer.checksum = checksum_of(code.data(), trailer);
  std::memcpy(trailer.magic, kMagic, sizeof trailer.magic);
  return code + std::string(reinterpret_cast<const char*>(&trailer), sizeof trailer);
}

std::optional<std::string> open_sealed(const std::string& sealed, std::string* isa) {
  Trailer trailer;
  if (sealed.size() < sizeof trailer) return std::nullopt;
  std::memcpy(&trailer, sealed.data() + sealed.size() - sizeof trailer, sizeof trailer);
  if (std::memcmp(trailer.magic, kMagic, sizeof trailer.magic) != 0 ||
      trailer.bytes != sealed.size() - sizeof trailer)
    return std::nullopt;
  if (checksum_of(sealed.data(), trailer) != trailer.checksum) return std::nullopt;
  if (isa) *isa = std::string(trailer.isa, strnlen(trailer.isa, sizeof trailer.isa));
  return sealed.substr(0, sealed.size() - sizeof trailer);
}

namespace {
constexpr int64_t kMostBytes = int64_t{1} << 30;  // bytes of one file
using Mac = std::array<unsigned char, crypto_generichash_BYTES>;

Mac mac_of(const std::string& name, const char* bytes, size_t size, const unsigned char* key,
           size_t key_bytes) {
  crypto_generichash_state state;
  Mac out;
  crypto_generichash_init(&state, key, key_bytes, out.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(name.c_str()),
                            // Including its terminating zero, which marks the end of the name.
                            name.size() + 1);
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(bytes), size);
  crypto_generichash_final(&state, out.data(), out.size());
  return out;
}

// A whole file; nothing if it cannot be read to its end.
std::optional<std::string> bytes_of(const Descriptor& file) {
  struct stat at;
  if (::fstat(file.get(), &at) != 0 || at.st_size > kMostBytes) return std::nullopt;
  std::string out(at.st_size, '\0');
  if (read_fully(file.get(), out.data(), out.size(), 0) != at.st_size) return std::nullopt;
  return out;
}

enum class Existing { replaced, kept };

// Links an unnamed file into the folder; it already has all its bytes.
bool name_file(const Descriptor& file, const Descriptor& folder, const std::string& name, Existing existing) {
  const std::string from = str("/proc/self/fd/", file.get());
  auto link = [&] {
    return ::linkat(AT_FDCWD, from.c_str(), folder.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link()) return true;
  if (errno != EEXIST || existing == Existing::kept) return false;
  if (::unlinkat(folder.get(), name.c_str(), 0) != 0 && errno != ENOENT) return false;
  return link() || errno == EEXIST;  // or another writer linked the same content
}

// Makes a file visible only when it is complete. It is written unnamed (O_TMPFILE), so a killed writer leaves
// nothing. If the file system does not support that, it is written under a temporary name.
bool publish(const Descriptor& folder, const std::string& name, const std::string& bytes, Existing existing) {
  Descriptor file(::openat(folder.get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file) {
    if (::fchmod(file.get(), 0600) != 0 || write_fully(file.get(), bytes) != 0) return false;
    if (name_file(file, folder, name, existing)) return true;
    if (errno == EEXIST || errno == EISDIR) return false;
  } else if (errno == EACCES || errno == EROFS || errno == ENOSPC || errno == EDQUOT) {
    return false;
  }
  static std::atomic<int> count{0};
  const std::string draft = str(name, ".", getpid(), ".", count++, ".writing");
  file = create_private(draft, O_WRONLY, folder.get());
  if (!file) return false;
  const bool named = write_fully(file.get(), bytes) == 0 &&
                     (existing == Existing::replaced
                          ? ::renameat(folder.get(), draft.c_str(), folder.get(), name.c_str())
                          : ::linkat(folder.get(), draft.c_str(), folder.get(), name.c_str(), 0)) == 0;
  const int reason = errno;
  if (!named || existing == Existing::kept) ::unlinkat(folder.get(), draft.c_str(), 0);
  errno = reason;
  return named;
}

// Warns once per process, because the cache is opened for every compilation.
void warn_once(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  std::lock_guard lock(mutex);
  if (said.insert(line).second) logs::warn(line);
}
}  // namespace

std::string KernelCache::default_dir() {
  if (std::string dir = env("LOCKSTEP_CACHE"); !dir.empty()) return dir;
  if (const char* base = std::getenv("XDG_CACHE_HOME"); base && *base) return std::string(base) + "/lockstep";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/lockstep";
  std::error_code none;
  const auto temporary = std::filesystem::temp_directory_path(none);
  return str(none ? "/tmp" : temporary.string(), "/lockstep-cache-", getuid());
}

KernelCache::KernelCache(const std::string& dir) : dir_(dir.empty() ? default_dir() : dir) {
  LS_CHECK(sodium_init() >= 0, "libsodium cannot be used");
  // An invalid value is refused here, not when a file is written.
  (void)limit_of_environment("LOCKSTEP_CACHE_LIMIT");
  TrustedOpen opened = open_trusted_folder(dir_, true);
  if (opened) {
    folder_ = std::move(opened.file);
    open_key(dir);
    return;
  }
  why_ = opened.why;
  if (opened.distrusted()) refuse(dir, opened.why + ". Code out of it would run as you", "");
}

// Refuses a folder named here or by LOCKSTEP_CACHE; a default folder is merely not used.
void KernelCache::refuse(const std::string& named, const std::string& why, const std::string& or_else) {
  const bool by_variable = named.empty() && !env("LOCKSTEP_CACHE").empty();
  if (!named.empty() || by_variable)
    throw UserError(str(
        "the kernel cache ", by_variable ? "of LOCKSTEP_CACHE, " : "", dir_, ", is not used: ", why, ": ",
        by_variable ? "set LOCKSTEP_CACHE to a folder of your own, or unset it" : "name a folder of your own",
        or_else));
  warn_once(str("kernel cache: ", dir_, " is not used: ", why,
                "; kernels are compiled in every run. Set LOCKSTEP_CACHE to a folder of your own", or_else));
  why_.clear();
  folder_.reset();
}

// A foreign file `key` may belong to somebody, so it is not removed.
void KernelCache::open_key(const std::string& named) {
  const std::string path = str(dir_, "/", kKeyName);
  for (int i = 0; i < 3; ++i) {
    TrustedOpen opened = open_trusted_in(folder_, kKeyName, dir_);
    if (opened.error != 0 && opened.error != ENOENT) {  // for example a folder of root with an unreadable key
      why_ = str("its key cannot be read: ", opened.why);
      break;
    }
    if (opened.error != ENOENT) {
      const std::string wrong = opened ? read_key(opened.file) : opened.why;
      if (wrong.empty()) return;
      return refuse(named, str(opened ? path + " " : "", wrong, ", and is not the key of a cache"),
                    str(". If nobody needs that file, remove it: kernels are then compiled again"));
    }
    randombytes_buf(key_.data(), key_.size());
    const std::string made(reinterpret_cast<const char*>(key_.data()), key_.size());
    if (!publish(folder_, kKeyName, made, Existing::kept) && errno != EEXIST)
      break;  // else the next round reads the key, which another process may have written first
  }
  if (why_.empty()) why_ = str("its key, ", path, ", cannot be made: ", std::strerror(errno));
  folder_.reset();
}

// Why it is not a key; "" if it was accepted.
std::string KernelCache::read_key(const Descriptor& file) {
  struct stat at{};
  if (::fstat(file.get(), &at) != 0) return std::strerror(errno);
  if (at.st_size != static_cast<int64_t>(key_.size()))
    return str("has ", at.st_size, " bytes, where a key has ", key_.size());
  if (at.st_uid != ::geteuid()) return str("belongs to user ", at.st_uid);
  if (at.st_mode & 0077) return "is readable for others";
  if (read_fully(file.get(), key_.data(), key_.size(), 0) != at.st_size) return "cannot be read";
  return "";
}

std::string KernelCache::try_write() const {
  unsigned char random[8];
  randombytes_buf(random, sizeof random);
  const std::string name = "lockstep-doctor-" + hash_hex(random, sizeof random);
  const std::string why = write(name, "");
  if (why.empty()) ::unlinkat(folder_.get(), name.c_str(), 0);
  return why;
}

std::optional<std::string> KernelCache::read(const std::string& name) const {
  if (!folder_) return std::nullopt;
  TrustedOpen opened = open_trusted_in(folder_, name, dir_);
  if (opened.error == ENOENT) return std::nullopt;
  std::string wrong = opened.why;
  if (opened) {
    wrong = str(dir_, "/", name, " is damaged, or was made under another key");
    auto bytes = bytes_of(opened.file);
    Mac found;
    if (bytes && bytes->size() >= found.size()) {
      const size_t size = bytes->size() - found.size();
      std::memcpy(found.data(), bytes->data() + size, found.size());
      if (sodium_memcmp(found.data(), mac_of(name, bytes->data(), size, key_.data(), key_.size()).data(),
                        found.size()) == 0) {
        bytes->resize(size);
        ::futimens(opened.file.get(), nullptr);  // marks it as recently used
        return bytes;
      }
    }
  }
  logs::warn(str("kernel cache: ", wrong, "; it is not used, and is made again"));
  ::unlinkat(folder_.get(), name.c_str(), 0);
  return std::nullopt;
}

std::string KernelCache::write(const std::string& name, const std::string& bytes) const {
  if (!folder_) return why_;
  const Mac mac = mac_of(name, bytes.data(), bytes.size(), key_.data(), key_.size());
  const std::string file = bytes + std::string(reinterpret_cast<const char*>(mac.data()), mac.size());
  if (!publish(folder_, name, file, Existing::replaced)) return std::strerror(errno);
  // The folder is listed only once per many written files.
  static std::atomic<int> written{0};
  if (const int64_t limit = limit_of_environment("LOCKSTEP_CACHE_LIMIT"); limit > 0 && written++ % 64 == 0)
    prune(limit);
  return "";
}

}  // namespace lockstep::compiler::cpu
