// cuDNN's libraries and handles for files that build graphs.
#include "compiler/codegen/cuda/library/cudnn_graph.h"

#include <map>

#include "core/base/error.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the headers look up their symbols here
}

namespace lockstep::compiler::cuda {

void open_cudnn_for(std::string_view what) {
  static std::once_flag once;
  std::call_once(once, [&] {
    const SharedLibrary& cudnn = cudnn_library(what);
    static const SharedLibrary runtime{"libcudart.so.13", "/usr/local/cuda/lib64/libcudart.so.13",
                                       "libcudart.so.12", "/usr/local/cuda/lib64/libcudart.so.12"};
    if (!runtime.opened())
      throw UserError(
          str("cuDNN needs the CUDA runtime, and neither libcudart.so.13 nor libcudart.so.12 can be opened: ",
              runtime.why(), ". Install it, or add its folder to LD_LIBRARY_PATH"));
    static const SharedLibrary compiler{"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13",
                                        "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.12"};
    cudnn_frontend::cudnn_dlhandle = cudnn.native();
  });
}

void check_cudnn(cudnnStatus_t status, const std::string& what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw InternalError(str(what, ": ", cudnn_frontend::detail::get_error_string(status)));
}

CudnnHandle& cudnn_handle(CudaDevice& device) {
  static std::mutex mutex;
  static auto& handles = *new std::map<int, CudnnHandle>;
  std::lock_guard lock(mutex);
  CudnnHandle& handle = handles[device.properties().ordinal];
  if (!handle.native) {
    device.enter();
    check_cudnn(cudnn_frontend::detail::create_handle(&handle.native),
                str("cudnnCreate on ", device.describe()));
  }
  return handle;
}

void set_cudnn_stream(CudnnHandle& handle, Stream& stream) {
  check_cudnn(
      cudnn_frontend::detail::set_stream(handle.native, reinterpret_cast<cudaStream_t>(stream_of(stream))),
      "cudnnSetStream");
}

void load_kernels_of(cudnn_frontend::graph::Graph& graph, CudnnHandle& handle) {
  check_cudnn(cudnn_frontend::detail::set_stream(handle.native, nullptr), "cudnnSetStream");
  static_cast<void>(graph.warmup(handle.native));
}

}  // namespace lockstep::compiler::cuda
