// cudnn-frontend, and the handles that run its graphs. Only files that build graphs include it, because it is
// slow to compile.
#pragma once

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <mutex>
#include <string>

#include "compiler/codegen/cuda/library/cudnn.h"

namespace lockstep::compiler::cuda {

// One handle per device, made when a plan is made and so never during a capture. Lives as long as the
// process.
struct CudnnHandle {
  cudnnHandle_t native = nullptr;
  std::mutex mutex;  // the stream is part of the handle's state
};
// Opens cuDNN and the libraries that cuDNN and its headers look up by plain name: the CUDA runtime and the
// compiler of its kernels. UserError as in open_cudnn.
void open_cudnn_for(std::string_view what);
CudnnHandle& cudnn_handle(CudaDevice& device);
void check_cudnn(cudnnStatus_t status, const std::string& what);  // InternalError
void set_cudnn_stream(CudnnHandle& handle, Stream& stream);       // under its mutex
// Loads the kernels of a graph's plan through a captured call that never runs, since the first real call may
// itself be captured. It uses its own stream, because the handle's last one may be gone. If this fails, the
// first call loads them.
void load_kernels_of(cudnn_frontend::graph::Graph& graph, CudnnHandle& handle);

}  // namespace lockstep::compiler::cuda
