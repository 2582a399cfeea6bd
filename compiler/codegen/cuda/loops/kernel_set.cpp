// Sets of kernels: compiled by NVRTC through the cache, loaded on a device, and launched.
#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "compiler/codegen/cache/kernel_cache.h"
#include "compiler/codegen/cuda/loops/kernels.h"
#include "compiler/codegen/cuda/loops/multi_tensor.h"
#include "compiler/codegen/cuda/source/nvrtc.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {

struct Step {
  CUfunction function = nullptr;
  unsigned grid = 0, block = 0, shared = 0;
};

class CudaKernel : public Kernel {
 public:
  CudaKernel(std::string name, const nlohmann::json& launch, size_t workspace, const Module& module)
      : name_(std::move(name)),
        aligned_(launch.at("aligned").get<std::vector<uintptr_t>>()),
        workspace_(workspace),
        together_(launch.contains("together")) {
    for (const auto& one : launch.at("functions")) {
      steps_.push_back({module.function(one.at("name").get<std::string>()), one.at("grid").get<unsigned>(),
                        one.at("block").get<unsigned>(), one.at("shared").get<unsigned>()});
      const Step& step = steps_.back();
      if (step.shared > 0)  // more than 48 KiB, with a kernel's static part, must be requested
        check(driver().FuncSetAttribute(step.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        static_cast<int>(step.shared)),
              name_);
    }
  }
  size_t workspace() const override { return workspace_; }
  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    run(args, workspace, {}, stream);
  }
  bool enqueue_together(void* const* args, void* workspace, const Repeats& repeats, Stream& stream,
                        int) const override {
    constexpr int64_t kMostRuns = 65535;  // blockIdx.y
    LS_CHECK(repeats.args >= aligned_.size(), repeats.args, " distances for the ", aligned_.size(),
             " arguments of kernel ", name_);
    for (size_t i = 0; i < aligned_.size(); ++i)
      if (repeats.strides[i] % static_cast<int64_t>(aligned_[i])) return false;
    if (!together_ || repeats.count > kMostRuns) return false;
    run(args, workspace, repeats, stream);
    return true;
  }

 private:
  void run(void* const* args, void* workspace, const Repeats& repeats, Stream& stream) const {
    std::vector<void*> parameters;
    for (size_t i = 0; i < aligned_.size() && !steps_.empty(); ++i) {
      LS_CHECK(reinterpret_cast<uintptr_t>(args[i]) % aligned_[i] == 0, "argument ", i, " of kernel ", name_,
               " is at ", args[i], ", it must be at a multiple of ", aligned_[i], " bytes");
      parameters.push_back(const_cast<void*>(static_cast<const void*>(&args[i])));
    }
    LS_CHECK(workspace || workspace_ == 0 || steps_.empty(), "kernel ", name_, " needs ", workspace_,
             " bytes of workspace");
    parameters.push_back(&workspace);
    std::vector<int64_t> apart(aligned_.size() + 1, 0);
    if (repeats.count > 1) std::copy_n(repeats.strides, aligned_.size(), apart.begin());
    apart.back() = repeats.workspace;
    if (together_) parameters.push_back(apart.data());
    for (const Step& step : steps_)
      launch(step.function, step.grid, static_cast<unsigned>(repeats.count), 1, step.block, step.shared,
             stream, parameters.data(), name_);
  }

  std::string name_;
  std::vector<Step> steps_;
  std::vector<uintptr_t> aligned_;
  size_t workspace_ = 0;
  bool together_;  // whether it takes the distances between runs
};

class CudaMultiTensorKernel : public MultiTensorKernel {
 public:
  CudaMultiTensorKernel(std::string name, const nlohmann::json& launch, const Module& module)
      : name_(std::move(name)),
        function_(module.function(name_)),
        chunk_(launch.at("chunk").get<int64_t>()),
        block_(launch.at("block").get<unsigned>()) {
    layout_.capacity = launch.at("capacity").get<int>();
    layout_.columns = launch.at("columns").get<int>();
    layout_.per_tensor = launch.at("per_tensor").get<int>();
    layout_.shared = launch.at("shared").get<int>();
  }
  void enqueue(void* const* table, const int64_t* numels, const float* per_tensor, int64_t tensors,
               void* const* scalars, Stream& stream, int) const override {
    alignas(16) char bytes[4096] = {};
    auto put = [&](size_t at, const auto& value) { std::memcpy(bytes + at, &value, sizeof value); };
    for (int s = 0; s < layout_.shared; ++s) put(8 * s, scalars[s]);
    for (int64_t next = 0; next < tensors;) {
      int32_t count = 0;
      uint32_t blocks = 0;
      for (; next < tensors && count < layout_.capacity; ++next) {
        if (numels[next] == 0) continue;
        const size_t at = count++;
        const auto columns = static_cast<size_t>(layout_.columns),
                   own = static_cast<size_t>(layout_.per_tensor), from = static_cast<size_t>(next);
        std::memcpy(bytes + layout_.pointers() + 8 * columns * at, table + columns * from, 8 * columns);
        if (own > 0) std::memcpy(bytes + layout_.scalars() + 4 * own * at, per_tensor + own * from, 4 * own);
        put(layout_.sizes() + 8 * at, numels[next]);
        put(layout_.first() + 4 * at, blocks);
        blocks += static_cast<uint32_t>((numels[next] + chunk_ - 1) / chunk_);
      }
      if (count == 0) break;
      put(layout_.first() + 4 * static_cast<size_t>(count), blocks);
      put(layout_.count(), count);
      void* parameters[] = {bytes};
      launch(function_, blocks, 1, 1, block_, 0, stream, parameters, name_);
    }
  }

 private:
  std::string name_;
  CUfunction function_;
  TableLayout layout_;
  int64_t chunk_;
  unsigned block_;
};

// The packed set: a description, then the machine code of the units: {"kernels": {name: {"unit", "launch",
// "workspace", "multi"}}, "bytes": [of each unit]}.
std::string pack(const nlohmann::json& description, const std::vector<std::string>& code,
                 const std::string& target) {
  const std::string text = description.dump();
  const uint64_t length = text.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  out += text;
  for (const auto& one : code) out += one;
  return cpu::seal(out, target);
}

class CudaKernelSet : public KernelSet {
 public:
  CudaKernelSet(CudaDevice& device, std::string sealed, bool from_cache)
      : sealed_(std::move(sealed)), from_cache_(from_cache) {
    std::string target;
    auto opened = cpu::open_sealed(sealed_, &target);
    uint64_t length = 0;
    LS_CHECK(opened.has_value(), "the machine code of the kernels is damaged (", sealed_.size(), " bytes)");
    if (target != device.target())
      throw UserError(str("the kernels were compiled for \"", target, "\", and this device is \"",
                          device.target(), "\" (", device.describe(), "); run on devices of one kind"));
    LS_CHECK(opened->size() >= sizeof length, "the machine code of the kernels is damaged (", sealed_.size(),
             " bytes)");
    hash_ = hash_hex(*opened);
    std::memcpy(&length, opened->data(), sizeof length);
    LS_CHECK(length <= opened->size() - sizeof length, "the machine code of the kernels is damaged (",
             sealed_.size(), " bytes)");
    const auto description = nlohmann::json::parse(opened->substr(sizeof length, length));
    size_t at = sizeof length + length;
    for (size_t bytes : description.at("bytes").get<std::vector<size_t>>()) {
      modules_.push_back(device.load(opened->substr(at, bytes)));
      at += bytes;
    }
    for (const auto& [name, kernel] : description.at("kernels").items()) {
      const Module& module = *modules_.at(kernel.at("unit").get<size_t>());
      const auto launch = nlohmann::json::parse(kernel.at("launch").get<std::string>());
      if (kernel.at("multi").get<bool>())
        multi_.emplace(name, std::make_unique<CudaMultiTensorKernel>(name, launch, module));
      else
        kernels_.emplace(
            name, std::make_unique<CudaKernel>(name, launch, kernel.at("workspace").get<size_t>(), module));
    }
  }
  const Kernel& find(const std::string& name) const override { return *find_in(kernels_, name); }
  const MultiTensorKernel& find_multi_tensor(const std::string& name) const override {
    return *find_in(multi_, name);
  }
  const std::string& binary() const override { return sealed_; }
  std::string hash() const override { return hash_; }
  bool from_cache() const override { return from_cache_; }

 private:
  template <class Map>
  static typename Map::mapped_type::pointer find_in(const Map& map, const std::string& name) {
    auto found = map.find(name);
    LS_CHECK(found != map.end(), "no kernel ", name, " in the set");
    return found->second.get();
  }
  std::string sealed_, hash_;
  bool from_cache_ = false;
  std::vector<std::shared_ptr<const Module>> modules_;
  std::map<std::string, std::unique_ptr<const Kernel>> kernels_;
  std::map<std::string, std::unique_ptr<const MultiTensorKernel>> multi_;
};

}  // namespace

std::shared_ptr<const KernelSet> compile_kernels(CudaDevice& device, std::vector<KernelSource> sources,
                                                 const std::string& cache_dir, int threads) {
  auto units = kernel_units(std::move(sources));
  nlohmann::json description{{"kernels", nlohmann::json::object()}, {"bytes", nlohmann::json::array()}};
  std::vector<std::string> texts;
  for (size_t u = 0; u < units.size(); ++u) {
    texts.push_back(kernel_unit(units[u]));
    for (const auto& source : units[u])
      description["kernels"][source.name] = {{"unit", u},
                                             {"launch", source.launch},
                                             {"workspace", source.workspace},
                                             {"multi", source.multi_tensor}};
  }
  Cubins cubins = begun_cubins(texts, device.target(), cache_dir, threads);
  for (const auto& code : cubins.code) description["bytes"].push_back(code.size());
  return std::make_shared<CudaKernelSet>(device, pack(description, cubins.code, device.target()),
                                         cubins.compiled == 0);
}

void begin_kernels(CudaDevice& device, std::vector<KernelSource> sources, const std::string& cache_dir) {
  std::vector<std::string> texts;
  for (const auto& unit : kernel_units(std::move(sources))) texts.push_back(kernel_unit(unit));
  // Largest first, so that the threads end together.
  std::stable_sort(texts.begin(), texts.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  begin_cubins(texts, device.target(), cache_dir);
}

std::shared_ptr<const KernelSet> load_kernels(CudaDevice& device, const std::string& binary) {
  return std::make_shared<CudaKernelSet>(device, binary, false);
}

}  // namespace lockstep::compiler::cuda
