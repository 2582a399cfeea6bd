// Opens cuDNN's library.
#include "compiler/codegen/cuda/library/cudnn.h"

#include <map>
#include <mutex>

#include "core/base/error.h"

namespace lockstep::compiler::cuda {

const SharedLibrary& open_cudnn(std::initializer_list<const char*> names, std::string_view what) {
  static auto& opened = *new std::map<std::string, SharedLibrary>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::string all = join(std::vector<std::string>(names.begin(), names.end()), ", ");
  const SharedLibrary& library = opened.try_emplace(all, names).first->second;
  if (!library.opened())
    throw UserError(str(what, " on a GPU needs cuDNN 9, and none of ", all, " can be opened: ", library.why(),
                        ". Install cuDNN 9 for this CUDA version, or add its folder to LD_LIBRARY_PATH"));
  return library;
}

const SharedLibrary& cudnn_library(std::string_view what) {
  return open_cudnn({"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"}, what);
}

std::string cudnn_version() {
  auto version = reinterpret_cast<size_t (*)()>(cudnn_library().find("cudnnGetVersion"));
  LS_CHECK(version, "cuDNN has no cudnnGetVersion");
  const size_t number = version();  // 10000 major + 100 minor + patch
  return str("cuDNN ", number / 10000, ".", number / 100 % 100, ".", number % 100);
}

}  // namespace lockstep::compiler::cuda
