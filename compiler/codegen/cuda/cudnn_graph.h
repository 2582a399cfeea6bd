// cudnn-frontend, and the handles that its graphs run on. Included by the files that build graphs alone: its
// compilation is long.
#pragma once

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <mutex>
#include <string>

#include "compiler/codegen/cuda/cudnn.h"

namespace lockstep::compiler::cuda {

// One handle per device, made when a plan is: never while work is captured. Kept for the life of the process.
struct CudnnHandle {
  cudnnHandle_t native = nullptr;
  std::mutex mutex;  // the stream is the handle's state
};
// Opens cuDNN and what cuDNN and its headers look for by plain name: the CUDA runtime and the compiler of its
// kernels. UserError as in open_cudnn.
void open_cudnn_for(std::string_view what);
CudnnHandle& cudnn_handle(CudaDevice& device);
void check_cudnn(cudnnStatus_t status, const std::string& what);  // InternalError
void set_cudnn_stream(CudnnHandle& handle, Stream& stream);       // under its mutex
// Loads the kernels of a graph's plan by a captured call that never runs: a first call may itself be
// captured. On a stream of its own, since the handle's last one may be gone; where this fails, the first call
// loads them.
void load_kernels_of(cudnn_frontend::graph::Graph& graph, CudnnHandle& handle);

}  // namespace lockstep::compiler::cuda
