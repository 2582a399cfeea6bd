// Products of bf16 matrices packed in a core's cache, on AMX or AVX-512 bf16, summed in f32. For calls whose
// products are too small to pay for a oneDNN primitive each.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::compiler::panels {

enum class Unit { none, avx512, amx };
// The best unit of this processor that oneDNN may use, too (ONEDNN_MAX_CPU_ISA limits both). The units sum in
// different orders, so the unit is part of a call's name.
Unit best_unit();
std::string_view name(Unit unit);

// Panels are padded with zeros to multiples of kSide along both dims.
constexpr int64_t kSide = 32;
constexpr int64_t filled(int64_t n) { return (n + kSide - 1) / kSide * kSide; }

// A matrix in memory: `count` rows of `width` bf16, `stride` elements apart.
struct MatrixRows {
  const uint16_t* at;
  int64_t stride, count, width;
};
// The left side of a product: filled(count) rows of filled(width), `stride` apart.
void fill_left(MatrixRows from, uint16_t* to, int64_t stride);
// The same for the transposed matrix.
void fill_left_transposed(MatrixRows from, uint16_t* to, int64_t stride);
// The right side, filled(count) deep, filled(width) columns. Stored as tiles of 32 by 16; the tiles of 16
// columns follow one another, and depths are in pairs.
void fill_right(MatrixRows from, uint16_t* to);
void fill_right_transposed(MatrixRows from, uint16_t* to);
// Offset of the product that omits `depths` and `columns` of a right side `deep` deep (both multiples of
// kSide).
constexpr int64_t right_offset(int64_t deep, int64_t depths, int64_t columns) {
  return columns * deep + depths * 16;
}

// While it exists, this thread may multiply on the unit.
class UnitSession {
 public:
  explicit UnitSession(Unit unit);
  ~UnitSession();
  UnitSession(const UnitSession&) = delete;

 private:
  Unit unit_;
};

struct Left {
  const uint16_t* at;
  int64_t stride;
};
struct Right {
  const uint16_t* at;
  int64_t deep;  // of the panel; the product may use fewer
};
struct Sums {
  float* at;
  int64_t stride;
};
// sums[m, n] = left[m, k] right[k, n], or sums += that if `add`; m, n and k are multiples of kSide.
void multiply(Unit unit, int64_t m, int64_t n, int64_t k, Left left, Right right, bool add, Sums sums);

}  // namespace lockstep::compiler::panels
