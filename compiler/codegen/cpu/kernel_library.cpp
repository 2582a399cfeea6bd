// Libraries of kernels: cache, compiler, loader.
#include "compiler/codegen/kernel_library.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "compiler/codegen/cpu/cache.h"
#include "compiler/codegen/cpu/compiler.h"
#include "compiler/codegen/cpu/prelude.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"

namespace lockstep {

// The shared object lives in an anonymous file, which stays open: its path under /proc is the loader's name for it.
struct KernelLibrary::Loaded {
  std::string sealed, code_hash;
  int file = -1;
  void* handle = nullptr;
  ~Loaded() {
    if (handle) dlclose(handle);
    if (file >= 0) close(file);
  }
};

namespace {
constexpr const char* kFormat = "kernels-1";
constexpr size_t kKernelsPerUnit = 6;

// Threads of the OpenMP runtime outlive the kernels that started them, so the runtime must not be unloaded with a library.
void keep_openmp() { [[maybe_unused]] static void* runtime = dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE); }

void write_all(int file, const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    LS_CHECK(n > 0, "cannot write machine code to memory: ", std::strerror(errno));
    done += static_cast<size_t>(n);
  }
}
}  // namespace

KernelLibrary KernelLibrary::from_binary(const std::string& bytes) {
  std::string isa;
  auto code = cpu::open_sealed(bytes, &isa);
  LS_CHECK(code, "the machine code of the kernels is damaged (", bytes.size(), " bytes)");
  try {
    (void)parse_isa(isa);
  } catch (const UserError&) {
    throw UserError(str("the kernels were compiled for \"", isa, "\", which this machine lacks (it has \"", name(probe_isa()),
                        "\"); run on machines of one kind, or set LOCKSTEP_ISA=", name(probe_isa()), " on all"));
  }
  auto loaded = std::make_shared<Loaded>();
  loaded->sealed = bytes;
  loaded->code_hash = hash_hex(*code);
  loaded->file = memfd_create("lockstep-kernels", MFD_CLOEXEC);
  LS_CHECK(loaded->file >= 0, "memfd_create: ", std::strerror(errno));
  write_all(loaded->file, *code);
  keep_openmp();
  std::string path = str("/proc/self/fd/", loaded->file);
  loaded->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded->handle) {
    std::string why = dlerror();
    throw InternalError(str("cannot load the kernels: ", why));
  }
  KernelLibrary out;
  out.loaded_ = std::move(loaded);
  return out;
}

namespace {
void* symbol(void* handle, const std::string& name) {
  void* found = dlsym(handle, name.c_str());
  LS_CHECK(found, "no kernel ", name, " in the library");
  return found;
}
}  // namespace

KernelFn KernelLibrary::find(const std::string& name) const {
  LS_CHECK(loaded_, "no kernels are loaded");
  return reinterpret_cast<KernelFn>(symbol(loaded_->handle, name));
}
MultiTensorFn KernelLibrary::find_multi_tensor(const std::string& name) const {
  LS_CHECK(loaded_, "no kernels are loaded");
  return reinterpret_cast<MultiTensorFn>(symbol(loaded_->handle, name));
}
const std::string& KernelLibrary::binary() const {
  LS_CHECK(loaded_, "no kernels are loaded");
  return loaded_->sealed;
}
std::string KernelLibrary::hash() const {
  LS_CHECK(loaded_, "no kernels are loaded");
  return loaded_->code_hash;
}

KernelLibrary compile_kernels(std::vector<KernelSource> sources, const KernelOptions& options) {
  std::sort(sources.begin(), sources.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  sources.erase(std::unique(sources.begin(), sources.end(), [](const auto& a, const auto& b) { return a.name == b.name; }), sources.end());
  const Isa isa = parse_isa(options.isa.empty() ? env("LOCKSTEP_ISA") : options.isa);
  const std::string compiler = env("LOCKSTEP_CXX"), flags = compile_flags(isa);

  // As many units as there are compilers, largest kernels first, so that they end together. The units are a function of the sources alone.
  size_t count = std::clamp<size_t>((sources.size() + kKernelsPerUnit - 1) / kKernelsPerUnit, 1, 16);
  std::vector<std::string> units(count);
  std::vector<const KernelSource*> order;
  for (const auto& source : sources) order.push_back(&source);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->text.size() > b->text.size(); });
  for (const auto* source : order)
    *std::min_element(units.begin(), units.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); }) += source->text;
  std::string all;
  for (auto& unit : units) {
    unit = cpu::prelude_for(unit) + unit;
    all += unit;
  }
  const std::string key =
      hash_hex(str(kFormat, "\n", flags, "\n", compiler, "\n", cpu::compiler_version(compiler), "\n", name(isa), "\n", all));
  const std::string dir = options.cache_dir.empty() ? cpu::default_cache_dir() : options.cache_dir;

  if (auto sealed = cpu::read_cache(dir, key)) {
    KernelLibrary out = KernelLibrary::from_binary(*sealed);
    out.from_cache_ = true;
    return out;
  }
  std::string sealed = cpu::seal(cpu::compile_units(compiler, flags, units, options.threads), std::string(name(isa)));
  std::string reason;
  if (!cpu::write_cache(dir, key, sealed, reason))
    logs::warn(str("kernel cache: ", dir, " does not take files (", reason,
                   "); kernels are compiled again next time; set LOCKSTEP_CACHE to a folder that can be written"));
  return KernelLibrary::from_binary(sealed);
}

}  // namespace lockstep
