// Libraries of kernels: the cache, the compiler and the loader.
#include "compiler/codegen/kernel_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "compiler/codegen/cache/kernel_cache.h"
#include "compiler/codegen/cpu/compiler.h"
#include "compiler/codegen/cpu/prelude.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/files/plain_file.h"

namespace lockstep::compiler {

// The shared object is an anonymous memory file, which stays open; the loader opens it by its path under
// /proc. The loader takes one path for one library: if something keeps the library loaded after the last
// close, the file stays open too, so that no later library gets its path.
struct KernelLibrary::Loaded {
  std::string sealed, code_hash;
  Descriptor file;
  void* handle = nullptr;
  std::string path() const { return str("/proc/self/fd/", file.get()); }
  ~Loaded() {
    if (!handle) return;
    dlclose(handle);
    if (dlopen(path().c_str(), RTLD_LAZY | RTLD_NOLOAD)) (void)file.take();
  }
};

namespace {
constexpr const char* kFormat = "kernels-2";
constexpr size_t kKernelsPerUnit = 6;

// Keeps the OpenMP runtime loaded, because its threads outlive the kernels that started them.
void keep_openmp() {
  [[maybe_unused]] static void* runtime = dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
}

// The bytes as a sealed file in memory, which nobody can change.
Descriptor memory_file(const std::string& bytes) {
  Descriptor file(memfd_create("lockstep-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  LS_CHECK(file, "memfd_create: ", std::strerror(errno));
  LS_CHECK(write_fully(file.get(), bytes) == 0,
           "cannot write machine code to memory: ", std::strerror(errno));
  fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return file;
}

// The version of the compiler, which is part of an entry's name. If the compiler is missing, it is the
// version that this cache last saw under its name.
struct KnownCompiler {
  std::string version;
  std::string missing;  // why it is missing; "" if it is present
};
KnownCompiler known_compiler(const cpu::KernelCache& cache, const std::string& compiler) {
  const std::string note = str("compiler-", hash_hex(compiler), ".version");
  std::optional<std::string> seen = cache.read(note);
  try {
    const std::string version = cpu::compiler_version(compiler);
    if (seen != version) cache.write(note, version);  // the kernels' own write reports an unwritable folder
    return {version, ""};
  } catch (const cpu::NoCompiler& none) {
    if (!seen) throw;
    return {*seen, none.what()};
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
    throw UserError(str(
        "the kernels were compiled for \"", isa, "\", which this machine lacks (it has \"", name(probe_isa()),
        "\"); run on machines of one kind, or set LOCKSTEP_ISA=", name(probe_isa()), " on all"));
  }
  auto loaded = std::make_shared<Loaded>();
  loaded->sealed = bytes;
  loaded->code_hash = hash_hex(*code);
  loaded->file = memory_file(*code);
  keep_openmp();
  loaded->handle = dlopen(loaded->path().c_str(), RTLD_NOW | RTLD_LOCAL);
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
  sources.erase(std::unique(sources.begin(), sources.end(),
                            [](const auto& a, const auto& b) { return a.name == b.name; }),
                sources.end());
  const Isa isa = parse_isa(options.isa.empty() ? env("LOCKSTEP_ISA") : options.isa);
  const std::string compiler = env("LOCKSTEP_CXX"), flags = compile_flags(isa);

  // As many units as parallel compilers, largest kernels first, so that they end together. The units depend
  // only on the sources.
  size_t count = std::clamp<size_t>((sources.size() + kKernelsPerUnit - 1) / kKernelsPerUnit, 1, 16);
  std::vector<std::string> units(count);
  std::vector<const KernelSource*> order;
  for (const auto& source : sources) order.push_back(&source);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->text.size() > b->text.size(); });
  for (const auto* source : order)
    *std::min_element(units.begin(), units.end(),
                      [](const auto& a, const auto& b) { return a.size() < b.size(); }) += source->text;
  std::string all;
  for (auto& unit : units) {
    unit = cpu::prelude_for(unit) + unit;
    all += unit;
  }
  const cpu::KernelCache cache(options.cache_dir);
  const KnownCompiler known = known_compiler(cache, compiler);
  const std::string entry =
      hash_hex(str(kFormat, "\n", flags, "\n", compiler, "\n", known.version, "\n", name(isa), "\n", all)) +
      ".kernels";

  if (auto sealed = cache.read(entry)) {
    KernelLibrary out = KernelLibrary::from_binary(*sealed);
    out.from_cache_ = true;
    return out;
  }
  if (!known.missing.empty())
    throw UserError(str(known.missing, " (the kernel cache ", cache.dir(), ", filled by \"", known.version,
                        "\", lacks kernels of this step)"));
  std::string sealed =
      cpu::seal(cpu::compile_units(compiler, flags, units, options.threads), std::string(name(isa)));
  if (std::string reason = cache.write(entry, sealed); !reason.empty())
    logs::warn(
        str("kernel cache: ", cache.dir(), " does not take files (", reason,
            "); kernels are compiled again next time; set LOCKSTEP_CACHE to a folder that can be written"));
  return KernelLibrary::from_binary(sealed);
}

}  // namespace lockstep::compiler
