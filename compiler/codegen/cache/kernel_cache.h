// The kernel cache: a private folder of files named by the hash of all that made them, each under a seal that
// only its user can make.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/descriptor.h"

namespace lockstep::compiler::cpu {

// Machine code with a trailer: magic, instruction set, length, checksum. `seal` writes it, `open_sealed`
// gives the code back, or nothing when a single byte is wrong. It finds damage on the way between ranks, not
// intent: it has no key.
std::string seal(const std::string& code, const std::string& isa);
std::optional<std::string> open_sealed(const std::string& sealed, std::string* isa = nullptr);

// Code out of the cache runs as the user of this process. So the folder and those above it are root's or this
// user's and not writable for others (core/base/trusted_path.h), its files are made 0600 and opened once, and
// each carries a MAC (BLAKE2b) of its name and bytes under the key of the folder: 32 random bytes in the file
// `key`, 0600, made with the folder. What is read is what was checked.
class KernelCache {
 public:
  // LOCKSTEP_CACHE; else $XDG_CACHE_HOME/lockstep, ~/.cache/lockstep, or without a HOME a folder of this
  // user's in TMPDIR.
  static std::string default_dir();

  // Opens `dir` ("": the default); makes it where it is missing. UserError with the way out when a folder
  // that was named, here or by LOCKSTEP_CACHE, is not this user's alone to write, or has a file `key` that is
  // none of a cache; a default one is then not used, with a warning. One that cannot be made holds nothing.
  explicit KernelCache(const std::string& dir = "");

  const std::string& dir() const { return dir_; }
  // The bytes of a file; nothing when it is absent. A file that is damaged, of another key, of another user,
  // a link, or no file at all counts as absent, with a warning, and is removed where that is possible.
  std::optional<std::string> read(const std::string& name) const;
  // Readers see all of it or nothing. "", or why the folder does not take the file. Safe with any number of
  // writers.
  std::string write(const std::string& name, const std::string& bytes) const;
  // Whether it takes a file, of which nothing is left: "", or why not.
  std::string try_write() const;
  // Removes files that were not read or written for the longest time, until all have at most `limit` bytes;
  // the key stays. How many bytes went. write() does so now and then, with LOCKSTEP_CACHE_LIMIT.
  int64_t prune(int64_t limit) const;

 private:
  static constexpr size_t kKeyBytes = 32;
  static constexpr const char* kKeyName = "key";
  void open_key(const std::string& named);
  std::string read_key(const Descriptor& file);
  void refuse(const std::string& named, const std::string& why, const std::string& or_else);

  std::string dir_;
  Descriptor folder_;  // not open: the cache is not used
  std::string why_;    // it does not take files; "" where that was said already
  std::array<unsigned char, kKeyBytes> key_{};
};

}  // namespace lockstep::compiler::cpu
