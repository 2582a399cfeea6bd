// CUDA C++ of Hopper's own instructions.
#include "compiler/codegen/cuda/source/hopper_instructions.h"

#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
const char* const kInstructions = R"(
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) Map { u64 words[16]; };
__device__ __forceinline__ u32 shared_of(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void begin_barrier(u32 bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}
__device__ __forceinline__ void expect(u32 bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
// The phase of the k-th use of a barrier that has two stages in turn is k / 2 % 2.
__device__ __forceinline__ void await(u32 bar, int phase) {
  asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\n"
               "bra AGAIN;\nDONE:\n}" ::"r"(bar), "r"(phase) : "memory");
}
__device__ __forceinline__ void bring_panel(u32 to, const Map* map, u32 bar, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6}], [%2];"
               ::"r"(to), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
// Pixels that windows read at a place, from one window on; what lies outside of a sample is zeros.
__device__ __forceinline__ void bring_pixels(u32 to, const Map* map, u32 bar, int channel, int x, int y, int sample,
    int right, int down) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
               ::"r"(to), "l"(map), "r"(bar), "r"(channel), "r"(x), "r"(y), "r"(sample), "h"((unsigned short)right),
               "h"((unsigned short)down) : "memory");
}
__device__ __forceinline__ void bring(u32 to, const void* from, int bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
// The first of a sum is stored, the others are added.
__device__ __forceinline__ void send(float* to, u32 from, int bytes, bool first) {
  if (first)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(to), "r"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void sent() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void await_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void await_written() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void fence_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ __forceinline__ void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void await_turn(const int* turn, int mine) {
  int seen;
  do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(turn) : "memory");
  while (seen != mine);
  fence_copies();
}
__device__ __forceinline__ void give_turn(int* turn, int next) {
  fence_copies();
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(turn), "r"(next) : "memory");
}
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all but the last K groups of products are done.
template <int K> __device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(K) : "memory");
}
template <int R> __device__ __forceinline__ void use(float (&x)[R]) {
#pragma unroll
  for (int i = 0; i < R; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
// An operand of a product: rows of 128 bytes, swizzled; `panel`: bytes from 64 columns to the next 64, where
// columns are what the product keeps.
__device__ __forceinline__ u64 operand(u32 address, int panel = 16) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)(panel >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float2 two_at(u32 address) {
  float2 r;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(r.x), "=f"(r.y) : "r"(address));
  return r;
}
__device__ __forceinline__ void put(u32 address, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
__device__ __forceinline__ void put_matrices(u32 address, const u32* x) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}
)";
}  // namespace

std::string hopper_instructions() { return kInstructions; }

std::string hopper_product(int columns, bool held) {
  const int sums = columns / 2, left = held ? 4 : 1;
  auto names = [](int first, int count) {
    std::string all;
    for (int i = first; i < first + count; ++i) all += str(i > first ? "," : "", "%", i);
    return all;
  };
  std::string outputs;
  for (int i = 0; i < sums; ++i) outputs += str(i ? ", " : "", "\"+f\"(c[", i, "])");
  const std::string right = str("%", sums + left), add = str("%", sums + left + 1);
  const std::string shape =
      str("wgmma.mma_async.sync.aligned.m64n", columns, "k16.f32.bf16.bf16 {", names(0, sums), "}, ");
  if (held)
    return str("__device__ __forceinline__ void multiply(float (&c)[", sums,
               "], const u32* a, u64 b) {\n  asm volatile(\"", shape, "{", names(sums, 4), "}, ", right,
               ", 1, 1, 1, 1;\" : ", outputs,
               " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b));\n}\n");
  return str("template <int TA, int TB> __device__ __forceinline__ void multiply(float (&c)[", sums,
             "], u64 a, u64 b, int add) {\n  asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, ", add,
             ", 0;\\n", shape, names(sums, 1), ", ", right, ", p, 1, 1, ", "%", sums + 3, ", %", sums + 4,
             ";\\n}\" : ", outputs, " : \"l\"(a), \"l\"(b), \"r\"(add), \"n\"(TA), \"n\"(TB));\n}\n");
}

}  // namespace lockstep::compiler::cuda
