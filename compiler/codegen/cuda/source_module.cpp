// Element types as CUDA C++ text, and the process's modules.
#include "compiler/codegen/cuda/source_module.h"

#include <map>
#include <mutex>

#include "compiler/codegen/cuda/nvrtc.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

std::string sum_type(DType dtype) {
  if (dtype == DType::f64) return "double";
  if (is_float(dtype)) return "float";
  return size_of(dtype) == 8 ? "unsigned long long" : "unsigned";
}

std::string element_text(const std::string& prefix, DType dtype) {
  std::string stored, load, store, sum = sum_type(dtype);
  switch (dtype) {
    case DType::bf16:
      stored = "unsigned short";
      load = "return __uint_as_float((unsigned)x << 16);";
      store =
          "unsigned u = __float_as_uint(x);\n"
          "  if ((u & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((u >> 16) | 0x40);\n"
          "  return (unsigned short)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);";
      break;
    case DType::f16:
      stored = "unsigned short";
      load = "float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y;";
      store = "unsigned short y; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y;";
      break;
    case DType::f32:
    case DType::f64:
      stored = sum;
      load = store = "return x;";
      break;
    default:
      stored = size_of(dtype) == 1 ? "unsigned char" : size_of(dtype) == 2 ? "unsigned short" : sum;
      load = str("return (", sum, ")x;");
      store = str("return (", stored, ")x;");
  }
  return str("typedef ", stored, " ", prefix, "_t;\n", "static __device__ __forceinline__ ", sum, " load_",
             prefix, "(", prefix, "_t x) {\n  ", load, "\n}\n", "static __device__ __forceinline__ ", prefix,
             "_t store_", prefix, "(", sum, " x) {\n  ", store, "\n}\n");
}

std::shared_ptr<const Module> source_module(CudaDevice& device, const std::string& source,
                                            const std::string& cache_dir, const CompileWith& with) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, std::shared_ptr<const Module>> modules;
  std::lock_guard lock(mutex);
  auto& module = modules[{device.properties().ordinal, source}];
  if (!module) {
    const std::string target = with.target.empty() ? device.target() : with.target;
    module = device.load(cached_cubins({source}, target, cache_dir, with.flags).code.at(0));
  }
  return module;
}

}  // namespace lockstep::compiler::cuda
