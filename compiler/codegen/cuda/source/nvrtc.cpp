// NVRTC: opened at run time, compiles sources directly, through the cache, or in the background.
#include "compiler/codegen/cuda/source/nvrtc.h"

#include <nvrtc.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "compiler/codegen/cache/kernel_cache.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/device/cuda/driver.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

namespace {

constexpr const char* kSourceName = "kernels.cu";
constexpr int kLogLines = 12,
              // Lines of the log; lines of the source before and after the one with the error.
    kSourceLines = 4;

struct Nvrtc {
#define LS_NVRTC(X) \
  X(Version)        \
  X(GetErrorString) \
  X(CreateProgram)  \
  X(DestroyProgram) X(CompileProgram) X(GetProgramLogSize) X(GetProgramLog) X(GetCUBINSize) X(GetCUBIN)
#define LS_NVRTC_DECLARE(name) decltype(&::nvrtc##name) name = nullptr;
  LS_NVRTC(LS_NVRTC_DECLARE)
#undef LS_NVRTC_DECLARE
  std::string why;  // why NVRTC is missing; empty if it is present
  std::string version;
};

Nvrtc open_nvrtc() {
  Nvrtc out;
  const std::string given = env("LOCKSTEP_NVRTC");
  const SharedLibrary library = given.empty() ? SharedLibrary{"libnvrtc.so.13", "libnvrtc.so.12",
                                                              "/usr/local/cuda/lib64/libnvrtc.so.13",
                                                              "/usr/local/cuda/lib64/libnvrtc.so.12"}
                                              : SharedLibrary{given.c_str()};
  const std::string way_out =
      given.empty()
          ? "; install the CUDA toolkit's NVRTC (packages cuda-nvrtc), or set LOCKSTEP_NVRTC to its file"
          : "; LOCKSTEP_NVRTC names this file, unset it to use the toolkit's";
  if (!library.opened()) {
    out.why = str("no NVRTC, the compiler of CUDA kernels: ", library.why(), way_out);
    return out;
  }
  const char* lacks = nullptr;
#define LS_NVRTC_FIND(entry)                                                       \
  out.entry = reinterpret_cast<decltype(out.entry)>(library.find("nvrtc" #entry)); \
  if (!out.entry && !lacks) lacks = "nvrtc" #entry;
  LS_NVRTC(LS_NVRTC_FIND)
#undef LS_NVRTC_FIND
  int major = 0, minor = 0;
  if (out.Version && out.Version(&major, &minor) == NVRTC_SUCCESS) out.version = str(major, ".", minor);
  if (lacks)
    out.why = str("NVRTC ", out.version, out.version.empty() ? "" : " ", "lacks ", lacks,
                  ": Lockstep needs 11.2 or newer", way_out);
  return out;
}

const Nvrtc& opened() {
  static const Nvrtc once = open_nvrtc();
  return once;
}
const Nvrtc& nvrtc() {
  const Nvrtc& found = opened();
  if (!found.why.empty()) throw UserError(found.why);
  return found;
}

std::vector<std::string> flags_of(const std::string& target, const std::vector<std::string>& extra_flags) {
  std::vector<std::string> out = {"--gpu-architecture=" + target,
                                  "--std=c++17",
                                  "--fmad=false",
                                  "--ftz=false",
                                  "--prec-div=true",
                                  "--prec-sqrt=true"};
  out.insert(out.end(), extra_flags.begin(), extra_flags.end());
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// The line of the first error in a log: 12 for "kernels.cu(12): error: ..."; 0 if there is none.
int first_error_line(const std::vector<std::string>& log) {
  const std::string start = str(kSourceName, "(");
  for (const auto& line : log)
    if (line.rfind(start, 0) == 0 && line.find("error") != std::string::npos)
      return std::atoi(line.c_str() + start.size());
  return 0;
}

std::string failure(const std::string& source, const std::string& target, const std::string& log_text) {
  const std::vector<std::string> log = lines_of(log_text), lines = lines_of(source);
  std::string out = str("NVRTC ", opened().version, " cannot compile kernels for ", target, ":");
  for (int i = 0; i < std::min<int>(kLogLines, static_cast<int>(log.size())); ++i) out += "\n  " + log[i];
  const int at = first_error_line(log);
  if (at > 0) {
    out += "\n  the source there:";
    for (int i = std::max(1, at - kSourceLines);
         i <= std::min<int>(at + kSourceLines, static_cast<int>(lines.size())); ++i)
      out += str("\n  ", i == at ? "> " : "  ", i, ": ", lines[i - 1]);
  }
  return out +
         "\n  generated kernels are tested with NVRTC 13.0: "
         "use the NVRTC of that toolkit, and report this text";
}

std::string key_of(const std::string& source, const std::string& target,
                   const std::vector<std::string>& flags) {
  std::string all = str("cubin-2\n", opened().version, "\n", target, "\n");
  for (const auto& flag : flags) all += str(flag.size(), ":", flag, "\n");
  return hash_hex(all + source) + ".kernels";
}

}  // namespace

std::string nvrtc_version() { return nvrtc().version; }

bool nvrtc_available(std::string* why) {
  try {
    (void)nvrtc();
    return true;
  } catch (const std::exception& error) {
    if (why) *why = error.what();
    return false;
  }
}

std::string compile_cubin(const std::string& source, const std::string& target,
                          const std::vector<std::string>& extra_flags) {
  const Nvrtc& rtc = nvrtc();
  auto check = [&](nvrtcResult result, const char* what) {
    LS_CHECK(result == NVRTC_SUCCESS, "NVRTC ", rtc.version, ": ", what, ": ", rtc.GetErrorString(result));
  };
  struct Program {
    const Nvrtc& rtc;
    nvrtcProgram handle = nullptr;
    ~Program() {
      if (handle) rtc.DestroyProgram(&handle);
    }
  } program{rtc};
  check(rtc.CreateProgram(&program.handle, source.c_str(), kSourceName, 0, nullptr, nullptr),
        "nvrtcCreateProgram");
  const std::vector<std::string> flags = flags_of(target, extra_flags);
  std::vector<const char*> words;
  for (const auto& flag : flags) words.push_back(flag.c_str());
  const nvrtcResult compiled =
      rtc.CompileProgram(program.handle, static_cast<int>(words.size()), words.data());
  if (compiled != NVRTC_SUCCESS) {
    size_t size = 0;
    std::string log;
    if (rtc.GetProgramLogSize(program.handle, &size) == NVRTC_SUCCESS && size > 1) {
      log.resize(size);
      check(rtc.GetProgramLog(program.handle, log.data()), "nvrtcGetProgramLog");
      log.resize(size - 1);  // without its terminating zero
    }
    if (compiled == NVRTC_ERROR_INVALID_OPTION)
      throw UserError(str("NVRTC ", rtc.version, " does not take its flags (", join(flags, " "),
                          "): ", trim(log), "; when it does not know ", target,
                          ", the GPU is newer than this toolkit: install a newer one"));
    throw UserError(failure(source, target, log.empty() ? rtc.GetErrorString(compiled) : log));
  }
  size_t size = 0;
  check(rtc.GetCUBINSize(program.handle, &size), "nvrtcGetCUBINSize");
  LS_CHECK(size > 0, "NVRTC made no machine code for ", target);
  std::string code(size, '\0');
  check(rtc.GetCUBIN(program.handle, code.data()), "nvrtcGetCUBIN");
  return code;
}

namespace {
// Compilations in the background, until they are requested. Its threads must end before the objects that they
// use: so NVRTC is opened and logs are set up before it.
class Begun {
 public:
  Begun() { (void)nvrtc_available(), (void)logs::enabled("source"); }
  void begin(const std::string& key, const std::string& source, const std::string& target,
             const std::string& cache_dir, const std::vector<std::string>& flags) {
    auto task = std::make_shared<std::packaged_task<Cubins()>>(
        [=] { return cached_cubins({source}, target, cache_dir, flags, 1); });
    std::lock_guard lock(mutex_);
    if (!under_way_.emplace(key, task->get_future()).second) return;
    if (!threads_) threads_.emplace(std::max(1u, std::thread::hardware_concurrency()));
    boost::asio::post(*threads_, [task] { (*task)(); });
  }
  std::optional<std::future<Cubins>> take(const std::string& key) {
    std::lock_guard lock(mutex_);
    const auto found = under_way_.find(key);
    if (found == under_way_.end()) return std::nullopt;
    std::future<Cubins> out = std::move(found->second);
    under_way_.erase(found);
    return out;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::future<Cubins>> under_way_;
  std::optional<boost::asio::thread_pool> threads_;
};
Begun& begun() {
  static Begun of_process;
  return of_process;
}
std::string key_in(const std::string& cache_dir, const std::string& source, const std::string& target,
                   const std::vector<std::string>& extra_flags) {
  return cache_dir + "\n" + key_of(source, target, flags_of(target, extra_flags));
}
}  // namespace

void begin_cubins(const std::vector<std::string>& sources, const std::string& target,
                  const std::string& cache_dir) {
  (void)nvrtc();
  for (const std::string& source : sources)
    begun().begin(key_in(cache_dir, source, target, {}), source, target, cache_dir, {});
}

Cubins begun_cubins(const std::vector<std::string>& sources, const std::string& target,
                    const std::string& cache_dir, int threads) {
  Cubins out;
  out.code.resize(sources.size());
  std::vector<std::string> others;
  std::vector<size_t> place;
  for (size_t i = 0; i < sources.size(); ++i)
    if (auto future = begun().take(key_in(cache_dir, sources[i], target, {}))) {
      Cubins one = future->get();
      out.code[i] = std::move(one.code.at(0)), out.compiled += one.compiled;
    } else {
      others.push_back(sources[i]), place.push_back(i);
    }
  Cubins rest = cached_cubins(others, target, cache_dir, {}, threads);
  for (size_t i = 0; i < others.size(); ++i) out.code[place[i]] = std::move(rest.code[i]);
  out.compiled += rest.compiled;
  return out;
}

Cubins cached_cubins(const std::vector<std::string>& sources, const std::string& target,
                     const std::string& cache_dir, const std::vector<std::string>& extra_flags, int threads) {
  Cubins out;
  out.code.resize(sources.size());
  if (sources.empty()) return out;
  (void)nvrtc();
  const cpu::KernelCache cache(cache_dir);
  const std::vector<std::string> flags = flags_of(target, extra_flags);
  std::vector<size_t> missing;
  std::vector<std::string> keys;
  for (size_t i = 0; i < sources.size(); ++i) {
    keys.push_back(key_of(sources[i], target, flags));
    std::optional<std::string> code;
    if (auto sealed = cache.read(keys[i])) code = cpu::open_sealed(*sealed);
    if (code)
      out.code[i] = std::move(*code);
    else
      missing.push_back(i);
  }
  out.compiled = static_cast<int>(missing.size());
  if (missing.empty()) return out;
  // Largest first, so that the threads end together.
  std::stable_sort(missing.begin(), missing.end(),
                   [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
  std::vector<std::exception_ptr> failed(sources.size());
  std::vector<std::string> unwritten(sources.size());
  auto make = [&](size_t i) {
    try {
      out.code[i] = compile_cubin(sources[i], target, extra_flags);
      unwritten[i] = cache.write(keys[i], cpu::seal(out.code[i], target));
    } catch (...) { failed[i] = std::current_exception(); }
  };
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  threads = std::min(threads, out.compiled);
  if (threads == 1) {
    for (size_t i : missing) make(i);
  } else {
    boost::asio::thread_pool pool(threads);
    for (size_t i : missing) boost::asio::post(pool, [&make, i] { make(i); });
    pool.join();
  }
  for (const auto& error : failed)
    if (error) std::rethrow_exception(error);
  for (const auto& reason : unwritten)
    if (!reason.empty()) {
      logs::warn(str("kernel cache: ", cache.dir(), " does not take files (", reason,
                     "); kernels are compiled again in the next run"));
      break;
    }
  return out;
}

}  // namespace lockstep::compiler::cuda
