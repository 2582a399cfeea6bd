// Asks the driver and the libraries for their versions.
#include "core/device/cuda/inventory.h"

#include <cstdio>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/device/cuda/driver.h"

namespace lockstep::cuda {

namespace {

// major * 10000 + minor * 100 + patch, as cuBLASLt, cuDNN 9 and NCCL count.
std::string three_parts(size_t version) {
  return str(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string none(const SharedLibrary& library) {
  return str("none: ", library.opened() ? "the file has no version" : library.why());
}

std::string nvrtc() {
  const std::string given = lockstep::env("LOCKSTEP_NVRTC");
  const SharedLibrary library = given.empty() ? SharedLibrary{"libnvrtc.so.13", "libnvrtc.so.12",
                                                              "/usr/local/cuda/lib64/libnvrtc.so.13",
                                                              "/usr/local/cuda/lib64/libnvrtc.so.12"}
                                              : SharedLibrary{given.c_str()};
  auto* version = reinterpret_cast<int (*)(int*, int*)>(library.find("nvrtcVersion"));
  int major = 0, minor = 0;
  return version && version(&major, &minor) == 0 ? str(major, ".", minor) : none(library);
}
std::string size_version(const SharedLibrary& library, const char* symbol) {
  auto* version = reinterpret_cast<size_t (*)()>(library.find(symbol));
  return version ? three_parts(version()) : none(library);
}
std::string nccl() {
  const SharedLibrary library{"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"};
  auto* version = reinterpret_cast<int (*)(int*)>(library.find("ncclGetVersion"));
  int value = 0;
  return version && version(&value) == 0 ? three_parts(value) : none(library);
}

std::string device_text(int ordinal) {
  const Driver& cu = driver();
  CUdevice device = 0;
  char name[256] = {};
  int major = 0, minor = 0;
  size_t bytes = 0;
  check(cu.DeviceGet(&device, ordinal), "cuDeviceGet");
  check(cu.DeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName");
  check(cu.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
        "cuDeviceGetAttribute");
  check(cu.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
        "cuDeviceGetAttribute");
  check(cu.DeviceTotalMem(&bytes, device), "cuDeviceTotalMem");
  return str(name, ", compute capability ", major, ".", minor, ", ", bytes_text(static_cast<double>(bytes)),
             major < 8 ? " (older than 8.0: not used)" : "");
}

}  // namespace

std::string place_of(int ordinal) try {
  const Driver& cu = driver();
  CUdevice device = 0;
  char name[256] = {}, bus[32] = {};
  check(cu.DeviceGet(&device, ordinal), "cuDeviceGet");
  check(cu.DeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName");
  auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    check(cu.DeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
    return static_cast<unsigned>(value);
  };
  std::snprintf(bus, sizeof bus, "%04x:%02x:%02x.0", attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  return str("GPU ", ordinal, " (", name, ", PCI ", bus, ")");
} catch (const Error&) { return str("GPU ", ordinal); }

std::vector<Found> inventory() {
  std::vector<Found> out;
  std::string why;
  const bool devices = available(&why);
  try {
    int version = 0;
    check(driver().DriverGetVersion(&version), "cuDriverGetVersion");
    out.push_back(
        {"driver", devices ? version_text(version) : str(version_text(version), ", no device: ", why)});
  } catch (const Error& error) { out.push_back({"driver", str("none: ", error.what())}); }
  for (int i = 0; i < device_count(); ++i) try {
      out.push_back({str("GPU ", i), device_text(i)});
    } catch (const Error& error) { out.push_back({str("GPU ", i), str("not usable: ", error.what())}); }
  out.push_back({"NVRTC", nvrtc()});
  out.push_back({"cuBLASLt", size_version(SharedLibrary{"libcublasLt.so.13", "libcublasLt.so.12",
                                                        "/usr/local/cuda/lib64/libcublasLt.so.13",
                                                        "/usr/local/cuda/lib64/libcublasLt.so.12"},
                                          "cublasLtGetVersion")});
  out.push_back({"cuDNN", size_version(SharedLibrary{"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"},
                                       "cudnnGetVersion")});
  out.push_back({"NCCL", nccl()});
  return out;
}

}  // namespace lockstep::cuda
