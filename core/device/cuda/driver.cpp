// Opens the CUDA driver and turns its results into errors.
#include "core/device/cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep::cuda {

SharedLibrary::SharedLibrary(std::initializer_list<const char*> names) {
  std::vector<std::string> reasons;
  for (const char* name : names) {
    handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle_) return;
    const char* reason = dlerror();
    reasons.push_back(reason ? reason : str(name, ": cannot be opened"));
  }
  why_ = join(reasons, "; ");
}

void* SharedLibrary::find(const char* symbol) const { return handle_ ? dlsym(handle_, symbol) : nullptr; }

std::string version_text(int version) { return str(version / 1000, ".", version % 1000 / 10); }

std::string visible_devices() {
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value ? str("CUDA_VISIBLE_DEVICES is \"", value, "\"")
               : std::string("CUDA_VISIBLE_DEVICES is not set");
}

namespace {

// cuda.h renames entry points by macros (cuMemAlloc is cuMemAlloc_v2), so the name to look up is what the
// macro expands to.
#define LS_CUDA_TEXT_OF(expanded) #expanded
#define LS_CUDA_TEXT(name) LS_CUDA_TEXT_OF(name)

// The first version with every entry point of the table (cuGraphInstantiateWithFlags).
constexpr int kOldestDriver = 11040;

struct Opened {
  Driver table;
  std::string missing;    // why there is no driver; empty: there is one
  std::string no_device;  // why cuInit found no device
  int count = 0;
};

std::string result_text(const Driver& table, CUresult result) {
  const char *name = nullptr, *text = nullptr;
  if (table.GetErrorName) table.GetErrorName(result, &name);
  if (table.GetErrorString) table.GetErrorString(result, &text);
  return str(name ? name : "CUDA error", " (", static_cast<int>(result), ")", text ? ": " : "",
             text ? text : "");
}

Opened open_driver() {
  Opened out;
  const std::string given = env("LOCKSTEP_CUDA_DRIVER"), name = given.empty() ? "libcuda.so.1" : given;
  const SharedLibrary library{name.c_str()};
  if (!library.opened()) {
    out.missing = str("no CUDA driver: ", library.why(), "; ",
                      given.empty() ? "install the NVIDIA driver"
                                    : "LOCKSTEP_CUDA_DRIVER names this file, unset it to use libcuda.so.1",
                      ", or train with train.device \"cpu\"");
    return out;
  }
  std::string lacks;
  Driver& table = out.table;
#define LS_CUDA_FIND(entry)                                                             \
  table.entry = reinterpret_cast<decltype(table.entry)>(find(LS_CUDA_TEXT(cu##entry))); \
  if (!table.entry && lacks.empty() && !may_lack(LS_CUDA_TEXT(cu##entry))) lacks = LS_CUDA_TEXT(cu##entry);
  auto find = [&](const std::string& symbol) {
    void* found = library.find(symbol.c_str());
    // This entry point is newer than the oldest supported driver; there the older name takes the same
    // arguments.
    if (!found && symbol == "cuEventElapsedTime_v2") found = library.find("cuEventElapsedTime");
    return found;
  };
  auto may_lack = [](const std::string& symbol) { return symbol.rfind("cuTensorMapEncode", 0) == 0; };
  LS_CUDA_DRIVER(LS_CUDA_FIND)
#undef LS_CUDA_FIND
  int version = 0;
  if (table.DriverGetVersion) table.DriverGetVersion(&version);
  if (!lacks.empty()) {
    out.missing = str("the CUDA driver ", name, version ? str(" (version ", version_text(version), ")") : "",
                      " lacks ", lacks, ": Lockstep needs a driver of version ", version_text(kOldestDriver),
                      " or newer; update the NVIDIA driver");
    return out;
  }
  const CUresult started = table.Init(0);
  if (started == CUDA_SUCCESS) {
    if (table.DeviceGetCount(&out.count) != CUDA_SUCCESS) out.count = 0;
  } else if (started != CUDA_ERROR_NO_DEVICE) {
    out.missing =
        str("the CUDA driver ", name, " (version ", version_text(version),
            ") does not start: ", result_text(table, started), "; see whether nvidia-smi works here");
    return out;
  }
  if (out.count == 0)
    out.no_device =
        str("the CUDA driver (version ", version_text(version), ") finds no device: ", visible_devices(),
            "; see what nvidia-smi lists, or train with train.device \"cpu\"");
  return out;
}

const Opened& opened() {
  static const Opened once = open_driver();
  return once;
}

}  // namespace

const Driver& driver() {
  const Opened& found = opened();
  if (!found.missing.empty()) throw UserError(found.missing);
  return found.table;
}

bool available(std::string* why) {
  try {
    const Opened& found = opened();
    if (found.missing.empty() && found.count > 0) return true;
    if (why) *why = found.missing.empty() ? found.no_device : found.missing;
  } catch (const std::exception& error) {
    if (why) *why = error.what();
  }
  return false;
}

int device_count() { return available() ? opened().count : 0; }

void check(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  const std::string text = str("CUDA: ", what, ": ", result_text(opened().table, result));
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      throw UserError(str(text,
                          "; the device's memory is full: use a smaller micro-batch or more ranks, and see "
                          "in nvidia-smi what else uses it"));
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_UNKNOWN:
      throw PeerError(
          str(text,
              "; the device is lost to this process, which has to start again from its last checkpoint"
              " (when it happens again: dmesg shows the driver's Xid, and compute-sanitizer the kernel)"));
    default:
      throw InternalError(text);
  }
}

}  // namespace lockstep::cuda
