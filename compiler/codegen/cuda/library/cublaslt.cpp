// cuBLASLt's function table and handles.
#include "compiler/codegen/cuda/library/cublaslt.h"

#include <map>
#include <mutex>
#include <vector>

#include "core/base/error.h"

namespace lockstep::compiler::cuda {

CublasLt open_cublaslt(std::initializer_list<const char*> names) {
  SharedLibrary library(names);
  std::vector<std::string> tried(names.begin(), names.end());
  if (!library.opened())
    throw UserError(str(
        "cuBLASLt cannot be opened (tried ", join(tried, ", "), "): ", library.why(),
        "; matrix products on a CUDA device need it: install CUDA's libcublas 12 or 13, or add its folder to "
        "LD_LIBRARY_PATH"));
  CublasLt table;
  auto find = [&](auto& entry, const char* symbol) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(library.find(symbol));
    if (!entry)
      throw UserError(str("cuBLASLt (of ", join(tried, ", "), ") has no function ", symbol,
                          ": it is too old for this build; install CUDA's libcublas 12 or 13"));
  };
#define LS_CUBLASLT_FIND(name) find(table.name, "cublasLt" #name);
  LS_CUBLASLT(LS_CUBLASLT_FIND)
#undef LS_CUBLASLT_FIND
  return table;
}

const CublasLt& cublaslt() {
  static const CublasLt table =
      open_cublaslt({"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13",
                     "/usr/local/cuda/lib64/libcublasLt.so.12"});
  return table;
}

std::string cublaslt_version() {
  size_t version = cublaslt().GetVersion();  // major * 10000 + minor * 100 + patch
  return str(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

cublasLtHandle_t cublaslt_handle(CudaDevice& device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[device.properties().ordinal];
  if (!handle) {
    device.enter();  // a handle belongs to the current context
    check(cublaslt().Create(&handle), str("cublasLtCreate on device ", device.properties().ordinal));
  }
  return handle;
}

void check(cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::string text = str(what, ": ", cublaslt().GetStatusString(status), " (", static_cast<int>(status), ")");
  if (status == CUBLAS_STATUS_EXECUTION_FAILED)
    throw PeerError(str("the GPU could not run a matrix product: ", text));
  throw InternalError(text);
}

}  // namespace lockstep::compiler::cuda
