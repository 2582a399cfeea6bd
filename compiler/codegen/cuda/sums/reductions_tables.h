// The tables that the kernels of Reductions take by value: one text, compiled both here and on the device.
#pragma once

namespace lockstep::compiler::cuda {

// Defines its argument, and stores its text.
#define LS_SHARED_WITH_DEVICE(...) \
  __VA_ARGS__                      \
  inline constexpr const char* kReductionTables = #__VA_ARGS__;

// Every table is at most 4 KB. `first` is the first block of the grid that works on an entry; entries are
// sorted by it.
LS_SHARED_WITH_DEVICE(
    enum {kThreads = 256,         // of a block, in every kernel
          kFlatElements = 4096,   // of a block, where a row is one element
          kShortWidth = 128,      // rows up to this width share a warp
          kShortPasses = 8,       // of kThreads / lanes rows
          kPieceElements = 4096,  // of a longer row, for one warp
          kAccumulateElements = 8192, kCopyBytes = 32768, kLimbsDoubles = 8192,
          kChecksumWords = 8192,  // of a block
          kSumEntries = 62, kSumDeltas = 128, kTotalEntries = 100, kRunEntries = 120, kCopyEntries = 120,
          kLimbsEntries = 160, kChecksumEntries = 100, kGateEntries = 100, kMaxLefts = 10};
    enum {kFlat = 0, kShort = 1, kPieces = 2, kKind = 3, kVector = 4, kStore = 8};  // flags of a SumEntry
    enum {kGateF32 = 0, kGateF64 = 1, kGateBf16 = 2, kGateF16 = 3};

    struct SumEntry {
      const char* from;  // the first source; the others are at the table's deltas from it
      float* out;
      double* squares;  // of rows, or of pieces where a row is longer than one; null: not wanted
      long long rows;
      long long width;
      unsigned first;
      unsigned short delta;
      unsigned short flags;
    };
    struct SumTable {
      long long entries;
      long long deltas[kSumDeltas];  // in bytes
      SumEntry entry[kSumEntries];
    };

    struct TotalEntry {
      const double* pieces;
      double* squares;
      long long rows;
      long long pieces_per_row;
      unsigned first;
    };
    struct TotalTable {
      long long entries;
      TotalEntry entry[kTotalEntries];
    };

    struct RunEntry {
      long long at;
      const char* from;  // bf16 where `half`
      long long count;
      unsigned first;
      unsigned short vector;  // 1: everything is aligned to 4 elements at the run's start
      unsigned short half;
    };
    struct RunTable {
      long long entries;
      float* to;
      const float* lefts[kMaxLefts];
      RunEntry entry[kRunEntries];
    };

    struct CopyEntry {
      char* to;
      const char* from;
      long long bytes;
      unsigned first;
    };
    struct CopyTable {
      long long entries;
      CopyEntry entry[kCopyEntries];
    };

    struct LimbsEntry {
      const double* from;
      long long count;
      unsigned first;
    };
    struct LimbsTable {
      long long entries;
      LimbsEntry entry[kLimbsEntries];
    };

    struct ChecksumEntry {
      const unsigned long long* from;
      unsigned long long* sum;
      long long bytes;
      unsigned first;
    };
    struct ChecksumTable {
      long long entries;
      ChecksumEntry entry[kChecksumEntries];
    };

    struct GateEntry {
      const void* value;
      const float* limit;
      long long kind;  // kGateF32, ...
    };
    struct GateTable {
      long long entries;
      GateEntry entry[kGateEntries];
    };
    struct StrayId {     // the first id outside of its table, in memory of the host
      long long number;  // its position, from 1; 0: there is none
      long long id;
      long long rows;  // of the table
    };)
#undef LS_SHARED_WITH_DEVICE

// bf16 as f32; exact.
inline constexpr const char* kWiden = R"(
__device__ __forceinline__ float widen(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
__device__ __forceinline__ float4 widen4(uint2 x) {
  return make_float4(__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xffff0000u), __uint_as_float(x.y << 16), __uint_as_float(x.y & 0xffff0000u));
}
)";

// The entry whose blocks hold this one.
inline constexpr const char* kFindEntry = R"(
template <class Table>
__device__ __forceinline__ int find_entry(const Table& table) {
  int low = 0, high = (int)table.entries - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (table.entry[middle].first <= blockIdx.x) low = middle; else high = middle - 1;
  }
  return low;
}
)";

static_assert(sizeof(SumTable) <= 4096 && sizeof(TotalTable) <= 4096 && sizeof(RunTable) <= 4096 &&
              sizeof(CopyTable) <= 4096 && sizeof(LimbsTable) <= 4080 && sizeof(ChecksumTable) <= 4080 &&
              sizeof(GateTable) <= 4000);

}  // namespace lockstep::compiler::cuda
