// cuDNN as a library opened at run time, and its version. Files that build graphs include cudnn_graph.h.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

// Opens the library by the first of these names that opens, once per process. UserError saying that `what`
// needs it, with the names, the loader's words and the way out.
const SharedLibrary& open_cudnn(std::initializer_list<const char*> names,
                                std::string_view what = "attention in bf16 and f16");
// cuDNN by its usual names.
const SharedLibrary& cudnn_library(std::string_view what = "attention in bf16 and f16");
// "cuDNN 9.19.0". UserError as above.
std::string cudnn_version();

}  // namespace lockstep::compiler::cuda
