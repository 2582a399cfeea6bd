// cuBLASLt, opened at run time: the functions that Lockstep calls, one handle per device, and the version,
// which decides bits.
#pragma once

#include <cublasLt.h>

#include <initializer_list>
#include <string>

#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core
using lockstep::cuda::check;     // overloaded below

// Entry points of cuBLASLt by their names without "cublasLt".
struct CublasLt {
  // clang-format off
#define LS_CUBLASLT(X) \
  X(GetVersion) X(GetStatusString) X(Create) X(Matmul) X(MatmulDescInit_internal) \
  X(MatmulDescSetAttribute) X(MatrixLayoutInit_internal) X(MatrixLayoutSetAttribute) \
  X(MatmulPreferenceInit_internal) X(MatmulPreferenceSetAttribute) X(MatmulAlgoGetHeuristic) \
  X(MatmulAlgoConfigGetAttribute) X(MatmulAlgoCapGetAttribute) X(MatmulAlgoCheck)
// clang-format on
#define LS_CUBLASLT_DECLARE(name) decltype(&::cublasLt##name) name = nullptr;
  LS_CUBLASLT(LS_CUBLASLT_DECLARE)
#undef LS_CUBLASLT_DECLARE
};

// Opens the first of these libraries that opens. UserError with the loader's words if none does, or naming
// the missing function if the library is too old.
CublasLt open_cublaslt(std::initializer_list<const char*> names);
// The process's function table, opened by the first call: libcublasLt.so.13, then .12, on the loader's paths,
// then in /usr/local/cuda/lib64.
const CublasLt& cublaslt();
// "13.1.0": part of the numerics certificate. Needs the library, but no device.
std::string cublaslt_version();
// The handle of a device, made by the first call and kept for the life of the process; thread-safe.
cublasLtHandle_t cublaslt_handle(CudaDevice& device);
// Throws for anything but CUBLAS_STATUS_SUCCESS: PeerError when a kernel could not run, else InternalError.
// `what` names the call.
void check(cublasStatus_t status, const std::string& what);

}  // namespace lockstep::compiler::cuda
