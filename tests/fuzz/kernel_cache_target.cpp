// Fuzz target: a file of a kernel cache, under a key that the target knows. What is read is what was written;
// a file that was changed by one who lacks the key is not read. The first byte chooses what is done to the
// file, the next two where.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/codegen/cache/kernel_cache.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::fuzz {

namespace {
constexpr const char* kName = "fuzzed.kernels";
constexpr size_t kKeyBytes = 32;

std::string content(const std::string& path) {
  std::stringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// A cache whose key file holds `key`. The files of seeds are of the key of zeros.
compiler::cpu::KernelCache cache_with_key(const ScratchFolder& folder, const std::string& key) {
  ::chmod(folder.write("key", key).c_str(), 0600);
  return compiler::cpu::KernelCache(folder.path(""));
}

// The file that `write` makes of `code`.
std::string written(const compiler::cpu::KernelCache& cache, const std::string& code) {
  const std::string why = cache.write(kName, code);
  FUZZ_CHECK(why.empty(), why);
  return content(cache.dir() + "/" + kName);
}

// A stranger's bytes in the place of a file: read only where they are, to the last byte, what `write` makes
// of what was read (the fuzzer learns MACs by watching comparisons, and puts one below the code that it is
// of). What is refused is removed.
void read_as_given(const compiler::cpu::KernelCache& cache, const ScratchFolder& folder,
                   const std::string& file) {
  folder.write(kName, file);
  if (auto code = cache.read(kName))
    FUZZ_CHECK(written(cache, *code) == file, code->size());
  else
    FUZZ_CHECK(!std::filesystem::exists(folder.path(kName)), "a file that was refused is still there");
}

void read_changed(const compiler::cpu::KernelCache& cache, const ScratchFolder& folder,
                  const std::string& code, int change, size_t at) {
  const std::string file = written(cache, code);
  FUZZ_CHECK(cache.read(kName) == code, code.size());
  std::string changed = file;
  at %= file.size();
  switch (change) {
    case 0:
      changed[at] = static_cast<char>(changed[at] ^ (1 << (at & 7)));
      break;
    case 1:
      changed.resize(at);
      break;
    case 2:
      changed.insert(at, changed.substr(0, 1 + at % 64));
      break;
    case 3:
      changed.erase(at, 1 + at % 64);
      break;
    default:
      changed += code.substr(0, 1 + at) + '\0';
  }
  read_as_given(cache, folder, changed);
  folder.write("another.kernels", file);
  FUZZ_CHECK(!cache.read("another.kernels"), "a file was read under another name");
}

// The key file itself: one of the right size is taken, and what was written under the old key is not read; a
// file of another size is somebody else's, which stays, and the cache is refused.
void open_with_key(const std::string& key) {
  static const ScratchFolder folder;
  const std::string old_key(kKeyBytes, '\1');
  written(cache_with_key(folder, old_key), "code");
  bool refused = false;
  try {
    const auto cache = cache_with_key(folder, key);
    FUZZ_CHECK(cache.read(kName).has_value() == (key == old_key), key.size());
  } catch (const UserError&) { refused = true; }
  FUZZ_CHECK(refused == (key.size() != kKeyBytes), key.size());
  FUZZ_CHECK(content(folder.path("key")) == key, key.size());
}
}  // namespace

void kernel_cache(std::string_view bytes) {
  if (bytes.size() < 3) return;
  const int what = static_cast<unsigned char>(bytes[0]) % 7;
  const size_t at = static_cast<unsigned char>(bytes[1]) * 256u + static_cast<unsigned char>(bytes[2]);
  const std::string rest(bytes.substr(3));
  static const ScratchFolder folder;
  static const auto cache = cache_with_key(folder, std::string(kKeyBytes, '\0'));
  struct Quiet {  // each refusal is a warning
    Quiet() {
      logs::set_sink([](int, const std::string&) {});
    }
    ~Quiet() { logs::set_sink({}); }
  } quiet;
  if (what == 0) return read_as_given(cache, folder, rest);
  if (what == 1) return open_with_key(rest.substr(0, 2 * kKeyBytes));
  read_changed(cache, folder, rest, what - 2, at);
}

}  // namespace lockstep::fuzz
