// Cache files.
#include "compiler/codegen/cpu/cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"

namespace lockstep::cpu {

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
  if (std::memcmp(trailer.magic, kMagic, sizeof trailer.magic) != 0 || trailer.bytes != sealed.size() - sizeof trailer) return std::nullopt;
  if (checksum_of(sealed.data(), trailer) != trailer.checksum) return std::nullopt;
  if (isa) *isa = std::string(trailer.isa, strnlen(trailer.isa, sizeof trailer.isa));
  return sealed.substr(0, sealed.size() - sizeof trailer);
}

std::string default_cache_dir() {
  if (std::string dir = env("LOCKSTEP_CACHE"); !dir.empty()) return dir;
  if (const char* base = std::getenv("XDG_CACHE_HOME"); base && *base) return std::string(base) + "/lockstep";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/lockstep";
  return (std::filesystem::temp_directory_path() / str("lockstep-cache-", getuid())).string();
}

std::optional<std::string> read_cache(const std::string& dir, const std::string& key) {
  std::filesystem::path path = std::filesystem::path(dir) / (key + ".kernels");
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  std::string sealed = text.str();
  if (open_sealed(sealed)) return sealed;
  logs::warn(str("kernel cache: ", path.string(), " is damaged and is compiled again"));
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return std::nullopt;
}

bool write_cache(const std::string& dir, const std::string& key, const std::string& sealed, std::string& reason) {
  static std::atomic<int> count{0};
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) {
    reason = error.message();
    return false;
  }
  std::filesystem::path path = std::filesystem::path(dir) / (key + ".kernels"),
                        writing = std::filesystem::path(dir) / str(key, ".", getpid(), ".", count++, ".writing");
  int file = open(writing.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) {
    reason = std::strerror(errno);
    return false;
  }
  size_t done = 0;
  bool whole = true;
  while (done < sealed.size() && whole) {
    ssize_t n = ::write(file, sealed.data() + done, sealed.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      whole = false, reason = std::strerror(errno);
    else
      done += static_cast<size_t>(n);
  }
  if (close(file) != 0 && whole) whole = false, reason = std::strerror(errno);
  if (whole && ::rename(writing.c_str(), path.c_str()) != 0) whole = false, reason = std::strerror(errno);
  if (!whole) ::unlink(writing.c_str());
  return whole;
}

}  // namespace lockstep::cpu
