// Products of packed bf16 panels: a block of 32 by 32 sums in four AMX tiles, or of 8 by 32 in AVX-512
// registers.
#include "compiler/codegen/library/panels.h"

#include "compiler/codegen/library/avx512.h"
#include "compiler/codegen/library/primitives.h"
#include "core/base/error.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#define LS_AMX __attribute__((target("amx-tile,amx-bf16")))
#endif

namespace lockstep::compiler::panels {

std::string_view name(Unit unit) {
  return unit == Unit::amx ? "amx" : unit == Unit::avx512 ? "avx512" : "none";
}

#if defined(__x86_64__)
namespace {
// The kernel saves a thread's tiles only for a process that has requested it.
bool may_use_tiles() {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
LS_AMX void configure() {
  const TileConfig config;
  asm volatile("" ::"r"(&config) : "memory");
  _tile_loadconfig(&config);
}
LS_AMX void release() { _tile_release(); }

LS_AMX void multiply_amx(int64_t m, int64_t n, int64_t k, Left left, Right right, bool add, Sums sums) {
  const auto apart = static_cast<size_t>(left.stride) * 2, sums_apart = static_cast<size_t>(sums.stride) * 4;
  asm volatile("" ::: "memory");  // tile loads do not tell the compiler which memory they read
  for (int64_t n0 = 0; n0 < n; n0 += 32)
    for (int64_t m0 = 0; m0 < m; m0 += 32) {
      const uint16_t *a = left.at + m0 * left.stride, *b = right.at + n0 * right.deep;
      float *c = sums.at + m0 * sums.stride + n0, *below = c + 16 * sums.stride;
      if (add) {
        _tile_loadd(0, c, sums_apart);
        _tile_loadd(1, c + 16, sums_apart);
        _tile_loadd(2, below, sums_apart);
        _tile_loadd(3, below + 16, sums_apart);
      } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      }
      for (int64_t k0 = 0; k0 < k; k0 += 32) {
        _tile_loadd(6, b + k0 * 16, 64);
        _tile_loadd(4, a + k0, apart);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + 16 * right.deep + k0 * 16, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + 16 * left.stride + k0, apart);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      _tile_stored(0, c, sums_apart);
      _tile_stored(1, c + 16, sums_apart);
      _tile_stored(2, below, sums_apart);
      _tile_stored(3, below + 16, sums_apart);
    }
  asm volatile("" ::: "memory");
}

LS_AVX512 void multiply_avx512(int64_t m, int64_t n, int64_t k, Left left, Right right, bool add, Sums sums) {
  constexpr int kRows = 8;
  for (int64_t n0 = 0; n0 < n; n0 += 32)
    for (int64_t m0 = 0; m0 < m; m0 += kRows) {
      const uint16_t *a = left.at + m0 * left.stride, *b = right.at + n0 * right.deep;
      float* c = sums.at + m0 * sums.stride + n0;
      __m512 low[kRows], high[kRows];
      for (int r = 0; r < kRows; ++r) {
        low[r] = add ? _mm512_loadu_ps(c + r * sums.stride) : _mm512_setzero_ps();
        high[r] = add ? _mm512_loadu_ps(c + r * sums.stride + 16) : _mm512_setzero_ps();
      }
      for (int64_t pair = 0; pair < k / 2; ++pair) {
        const auto b0 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + pair * 32));
        const auto b1 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + 16 * right.deep + pair * 32));
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          int32_t two;
          __builtin_memcpy(&two, a + r * left.stride + pair * 2, 4);
          const auto both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
          low[r] = _mm512_dpbf16_ps(low[r], both, b0);
          high[r] = _mm512_dpbf16_ps(high[r], both, b1);
        }
      }
      for (int r = 0; r < kRows; ++r) {
        _mm512_storeu_ps(c + r * sums.stride, low[r]);
        _mm512_storeu_ps(c + r * sums.stride + 16, high[r]);
      }
    }
}
}  // namespace

Unit best_unit() {
  static const Unit best = [] {
    if (!multiplies_bf16()) return Unit::none;
    const bool tiles = dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx;
    return tiles && may_use_tiles() ? Unit::amx : Unit::avx512;
  }();
  return best;
}
UnitSession::UnitSession(Unit unit) : unit_(unit) {
  if (unit_ == Unit::amx) configure();
}
UnitSession::~UnitSession() {
  if (unit_ == Unit::amx) release();
}
void multiply(Unit unit, int64_t m, int64_t n, int64_t k, Left left, Right right, bool add, Sums sums) {
  if (unit == Unit::amx)
    multiply_amx(m, n, k, left, right, add, sums);
  else
    multiply_avx512(m, n, k, left, right, add, sums);
}
#else
Unit best_unit() { return Unit::none; }
#endif

}  // namespace lockstep::compiler::panels
