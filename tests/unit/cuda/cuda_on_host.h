// CUDA C++ on the host: the text of kernels as C++, a context for each thread of a block, which runs up to
// its next barrier in turn. Of a warp's functions those that kernels here use.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "compiler/codegen/cpu/compiler.h"
#include "core/base/error.h"

namespace lockstep::test {

inline constexpr const char* kCudaOnHost = R"(
#include <math.h>
#include <string.h>
#include <ucontext.h>
#include <utility>
#define __device__
#define __global__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
struct Index { unsigned x; };
static Index threadIdx, blockIdx, blockDim, gridDim;
static ucontext_t host_context, contexts[1024];
static bool ended[1024];
static unsigned alive;
static void (*body)(void*);  // of a thread, and what it is given
static void* body_data;
static void (*before_block)() = [] {};
static unsigned long long exchanged[1024];

// A thread waits here until all that are expected have come; those that have ended are expected nowhere.
struct Barrier { unsigned arrived, turn; };
static Barrier block_barrier;
static Barrier warp_barriers[32][64];  // one for each mask that a warp has met under
static unsigned warp_masks[32][64];
static void meet(Barrier& at, unsigned expected) {
  const unsigned turn = at.turn;
  ++at.arrived;
  while (at.turn == turn) {
    if (at.arrived >= (expected ? expected : alive)) {
      at.arrived = 0;
      ++at.turn;
      return;
    }
    swapcontext(&contexts[threadIdx.x], &host_context);
  }
}
static void __syncthreads() { meet(block_barrier, 0); }
static unsigned warp_begin() { return threadIdx.x / 32 * 32; }
static void meet_warp(unsigned mask) {
  const unsigned warp = threadIdx.x / 32;
  unsigned i = 0;
  while (i < 64 && warp_masks[warp][i] && warp_masks[warp][i] != mask) ++i;
  if (i == 64) __builtin_trap();
  warp_masks[warp][i] = mask;
  meet(warp_barriers[warp][i], __builtin_popcount(mask));
}
static void __syncwarp() { meet_warp(0xffffffffu); }
// What the lanes of a mask bring, as one of them sees it.
template <class T, class Read>
static auto exchange(unsigned mask, T x, Read read) {
  exchanged[threadIdx.x] = 0;
  memcpy(&exchanged[threadIdx.x], &x, sizeof x);
  meet_warp(mask);
  auto of = [](unsigned lane) {
    T y;
    memcpy(&y, &exchanged[warp_begin() + lane], sizeof y);
    return y;
  };
  auto out = read(of);
  meet_warp(mask);
  return out;
}
static unsigned own_lane() { return threadIdx.x & 31; }
template <class T>
static T __shfl_sync(unsigned mask, T x, int from, int width = 32) {
  return exchange(mask, x, [=](auto of) { return of((own_lane() & ~(width - 1)) | (from & (width - 1))); });
}
template <class T>
static T __shfl_xor_sync(unsigned mask, T x, int lane) {
  return exchange(mask, x, [=](auto of) { return of(own_lane() ^ lane); });
}
template <class T>
static T __shfl_up_sync(unsigned mask, T x, int by) {
  return exchange(mask, x, [=](auto of) { return of((int)own_lane() >= by ? own_lane() - by : own_lane()); });
}
template <class T, class Holds>
static unsigned lanes_where(unsigned mask, T x, Holds holds) {
  return exchange(mask, x, [=](auto of) {
    unsigned out = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
      if ((mask >> lane & 1) && holds(of(lane))) out |= 1u << lane;
    return out;
  });
}
static unsigned __ballot_sync(unsigned mask, int x) { return lanes_where(mask, x, [](int y) { return y != 0; }); }
template <class T>
static unsigned __match_any_sync(unsigned mask, T x) { return lanes_where(mask, x, [=](T y) { return y == x; }); }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __ffs(unsigned x) { return __builtin_ffs((int)x); }
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float4 { float x, y, z, w; };
static uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long all = a | (unsigned long long)b << 32;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= (unsigned)(all >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return out;
}
template <class T>
static T atomicAdd(T* at, T x) { T was = *at; *at += x; return was; }
static double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
static float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }

static void begin() { body(body_data); ended[threadIdx.x] = true; --alive; }
// Blocks one after another, threads in turn; both from the last on where `backward`, which may change no bit.
template <class Kernel>
static void run_grid(unsigned grid, unsigned block, bool backward, Kernel kernel) {
  constexpr size_t stack = 65536;
  alignas(64) static char stacks[1024 * stack];
  body = [](void* data) { (*(Kernel*)data)(); };
  body_data = &kernel;
  gridDim.x = grid, blockDim.x = block;
  for (unsigned b = 0; b < grid; ++b) {
    blockIdx.x = backward ? grid - 1 - b : b;
    alive = block;
    before_block();
    for (unsigned t = 0; t < block; ++t) {
      ended[t] = false;
      getcontext(&contexts[t]);
      contexts[t].uc_stack.ss_sp = stacks + t * stack;
      contexts[t].uc_stack.ss_size = stack;
      contexts[t].uc_link = &host_context;
      makecontext(&contexts[t], begin, 0);
    }
    while (alive > 0)
      for (unsigned i = 0; i < block; ++i) {
        const unsigned t = backward ? block - 1 - i : i;
        if (!ended[t]) threadIdx.x = t, swapcontext(&host_context, &contexts[t]);
      }
  }
}
template <class... A, size_t... I>
static void launch_kernel(void (*kernel)(A...), unsigned grid, unsigned block, bool backward, void** args, std::index_sequence<I...>) {
  run_grid(grid, block, backward, [=] { kernel(*(typename std::remove_const<A>::type*)args[I]...); });
}
template <class... A>
static void launch_kernel(void (*kernel)(A...), unsigned grid, unsigned block, bool backward, void** args) {
  launch_kernel(kernel, grid, block, backward, args, std::index_sequence_for<A...>());
}
)";

// The kernels of a text, launched on the host with pointers to the values of their parameters.
class CudaOnHost {
 public:
  // `given`: functions of the host by the names of the text's pointers to them.
  CudaOnHost(const std::string& text, const std::vector<std::string>& kernels,
             const std::vector<std::pair<std::string, void*>>& given = {}) {
    std::string source = kCudaOnHost + text;
    for (const std::string& kernel : kernels)
      source += str("extern \"C\" void run_", kernel,
                    "(unsigned grid, unsigned block, bool backward, void** args) { launch_kernel(", kernel,
                    ", grid, block, backward, args); }\n");
    const auto path =
        std::filesystem::temp_directory_path() / str("lockstep_kernels_", getpid(), "_", count_++, ".so");
    std::ofstream(path, std::ios::binary) << compiler::cpu::compile_units(
        "g++", "-std=c++17 -O1 -w -shared -fPIC -ffp-contract=off", {source}, 1);
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::filesystem::remove(path);
    LS_CHECK(handle_, dlerror());
    for (const auto& [name, function] : given) {
      auto* pointer = static_cast<void**>(dlsym(handle_, name.c_str()));
      LS_CHECK(pointer, "no pointer ", name);
      *pointer = function;
    }
  }
  CudaOnHost(const CudaOnHost&) = delete;
  CudaOnHost& operator=(const CudaOnHost&) = delete;
  ~CudaOnHost() { dlclose(handle_); }
  void launch(const std::string& kernel, unsigned grid, unsigned block, void** args,
              bool backward = false) const {
    auto run = reinterpret_cast<void (*)(unsigned, unsigned, bool, void**)>(
        dlsym(handle_, ("run_" + kernel).c_str()));
    LS_CHECK(run, "no kernel ", kernel);
    run(grid, block, backward, args);
  }

 private:
  inline static int count_ = 0;
  void* handle_ = nullptr;
};

}  // namespace lockstep::test
