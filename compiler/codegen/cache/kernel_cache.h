// The kernel cache: a private folder of files named by a hash of their inputs. Each file has a seal that only
// its user can make.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/files/descriptor.h"

namespace lockstep::compiler::cpu {

// Machine code with a trailer: magic, instruction set, length, checksum. `seal` writes it. `open_sealed`
// returns the code, or nothing if a single byte is wrong. It detects damage in transit between ranks, not
// tampering: it has no key.
std::string seal(const std::string& code, const std::string& isa);
std::optional<std::string> open_sealed(const std::string& sealed, std::string* isa = nullptr);

// Cached code runs with the rights of this process's user. So the folder and its parents belong to root or
// this user and nobody else may write to them (core/files/trusted_path.h). Files are created 0600 and opened
// once. Each carries a MAC (BLAKE2b) of its name and bytes under the folder's key: 32 random bytes in the
// file `key`, 0600, created with the folder. The bytes that were checked are the bytes that are used.
class KernelCache {
 public:
  // LOCKSTEP_CACHE; else $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep; without a HOME, a folder of this
  // user in TMPDIR.
  static std::string default_dir();

  // Opens `dir` ("": the default) and creates it if it is missing. UserError with the way out if a folder
  // named here or by LOCKSTEP_CACHE is writable for others, or its file `key` does not belong to a cache. A
  // default folder with such a fault is not used, with a warning. A folder that cannot be created caches
  // nothing.
  explicit KernelCache(const std::string& dir = "");

  const std::string& dir() const { return dir_; }
  // The bytes of a file; nothing when it is absent. A file counts as absent, with a warning, if it is
  // damaged, has another key or owner, is a link, or is not a regular file; it is then removed if possible.
  std::optional<std::string> read(const std::string& name) const;
  // Readers see the whole file or nothing. Returns "", or why the folder cannot store the file. Safe with any
  // number of writers.
  std::string write(const std::string& name, const std::string& bytes) const;
  // Whether the folder can store a file (the test file is removed): "", or why not.
  std::string try_write() const;
  // Removes the least recently read or written files until the rest take at most `limit` bytes; the key
  // stays. Returns the bytes removed. write() calls this now and then, with LOCKSTEP_CACHE_LIMIT.
  int64_t prune(int64_t limit) const;

 private:
  static constexpr size_t kKeyBytes = 32;
  static constexpr const char* kKeyName = "key";
  void open_key(const std::string& named);
  std::string read_key(const Descriptor& file);
  void refuse(const std::string& named, const std::string& why, const std::string& or_else);

  std::string dir_;
  Descriptor folder_;  // not open: the cache is not used
  std::string why_;    // why it cannot store files; "" if that was reported already
  std::array<unsigned char, kKeyBytes> key_{};
};

}  // namespace lockstep::compiler::cpu
