// Opens NCCL and fills its table.
#include "distributed/nccl/nccl_library.h"

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/device/cuda/driver.h"

namespace lockstep::distributed {

namespace {
constexpr int kOldest = 21800;  // ncclCommSplit

std::string version_text(int version) {
  return version < 10000 ? str(version / 1000, ".", version % 1000 / 100, ".", version % 100)
                         : str(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}
constexpr const char* kWayOut =
    "; several GPUs talk through NCCL: install it (package libnccl2), name its folder in LD_LIBRARY_PATH, or "
    "train on one GPU";

void keep_multicast_off() {
  constexpr const char* kName = "NCCL_NVLS_ENABLE";
  const char* value = std::getenv(kName);
  if (value && std::string(value) == "0") return;
  if (value) logs::warn(str(kName, " was \"", value, "\" and is set to 0: NVLink multicast is not used"));
  setenv(kName, "0", 1);
}
}  // namespace

Nccl open_nccl(std::initializer_list<const char*> names) {
  keep_multicast_off();
  cuda::SharedLibrary library(names);
  if (!library.opened()) throw UserError(str("NCCL cannot be opened: ", library.why(), kWayOut));
  Nccl out;
  out.GetVersion = reinterpret_cast<decltype(out.GetVersion)>(library.find("ncclGetVersion"));
  if (!out.GetVersion || out.GetVersion(&out.version) != ncclSuccess)
    throw UserError(str("the library that was opened as NCCL (", *names.begin(),
                        ") does not tell NCCL's version", kWayOut));
  if (out.version < kOldest)
    throw UserError(str("NCCL is version ", version_text(out.version), " and Lockstep needs at least ",
                        version_text(kOldest), kWayOut));
#define LS_NCCL_FIND(name)                                                     \
  out.name = reinterpret_cast<decltype(out.name)>(library.find("nccl" #name)); \
  LS_CHECK(out.name, "NCCL ", version_text(out.version), " has no entry point nccl" #name);
  LS_NCCL(LS_NCCL_FIND)
#undef LS_NCCL_FIND
  return out;
}

const Nccl& nccl() {
  static const Nccl table = open_nccl(
      {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", "/usr/lib/x86_64-linux-gnu/libnccl.so.2"});
  return table;
}

std::string nccl_version() { return version_text(nccl().version); }

bool nccl_available(std::string* why) {
  try {
    nccl();
    return true;
  } catch (const std::exception& error) {
    if (why) *why = error.what();
    return false;
  }
}

}  // namespace lockstep::distributed
