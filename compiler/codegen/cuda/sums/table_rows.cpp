// Launches of the sparse-table kernels: the layout of scratch memory, and the numbers of blocks.
#include "compiler/codegen/cuda/sums/table_rows.h"

#include <array>

#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr int64_t kChunk = 2048;          // ids per block, as in the kernels' source
constexpr int64_t kIdsOfBlock = 16;       // distinct ids, or rows, per kThreads threads
constexpr unsigned kBlockThreads = 1024;  // of the kernels that number ids

int64_t parts(int64_t count, int64_t each) { return (count + each - 1) / each; }

// Places in scratch: keys and places twice each, totals, starts and results.
struct Places {
  explicit Places(int64_t count) {
    const int64_t blocks = parts(count, kChunk);
    const std::array<int64_t, 7> words{count, count, count, count, 256 * blocks, count + 1, 2};
    for (size_t i = 0; i < words.size(); ++i) at[i + 1] = at[i] + parts(words[i] * 4, 256) * 256;
  }
  std::array<int64_t, 8> at{};  // in bytes; the last one is the end
};

long long kind_of(DType dtype) {
  if (dtype == DType::f64) return kGateF64;
  if (dtype == DType::bf16) return kGateBf16;
  if (dtype == DType::f16) return kGateF16;
  LS_CHECK(dtype == DType::f32, "a gate of ", name(dtype));
  return kGateF32;
}

// One call of sum_table_rows.
struct Call {
  const Reductions::Rows& all;
  const RowLaunch& launch;
  int n = 0, passes = 0;
  unsigned rows = 0;
  void *keys[2] = {}, *places[2] = {}, *totals = nullptr, *starts = nullptr, *found = nullptr;
  StrayId* stray = nullptr;

  Call(const Reductions::Rows& given, void* scratch, StrayId* told, const RowLaunch& by)
      : all(given),
        launch(by),
        n(static_cast<int>(given.count)),
        rows(static_cast<unsigned>(given.table_rows)),
        stray(told) {
    LS_CHECK(given.count < INT32_MAX - kChunk && given.table_rows > 0 && given.table_rows < INT32_MAX,
             given.count, " ids of ", given.table_rows, " rows");
    LS_CHECK(given.first == 0 && (given.owned < 0 || given.owned == given.table_rows), "rows from ",
             given.first, " on, ", given.owned, " of ", given.table_rows, ", and this device sums all");
    for (int64_t left = given.table_rows; left > 0; left >>= 8)
      ++passes;  // the number of rows is itself a key: that of ids outside
    const Places places_of(given.count);
    auto part = [&](size_t i) -> void* { return static_cast<char*>(scratch) + places_of.at[i]; };
    keys[0] = part(0), keys[1] = part(1), places[0] = part(2), places[1] = part(3);
    totals = part(4), starts = part(5), found = part(6);
  }
  void*& sorted_keys() { return keys[(passes - 1) % 2]; }
  void*& sorted_places() { return places[(passes - 1) % 2]; }

  void sort_in_block() {
    const void* ids = all.ids;
    void* args[] = {&ids,       &n,         &rows,   &passes, &keys[0], &keys[1],
                    &places[0], &places[1], &starts, &found,  &stray};
    launch("sort_in_block", 1, kBlockThreads, args);
  }
  void sort_in_blocks() {
    const void *ids = all.ids, *from_keys = nullptr, *from_places = nullptr;
    const auto blocks = static_cast<unsigned>(parts(n, kChunk));
    void* runs = nullptr;
    long long clear = 0;
    auto scan = [&](long long entries) {
      void* args[] = {&totals, &entries};
      launch("scan", 1, kBlockThreads, args);
    };
    for (int pass = 0; pass < passes; ++pass) {
      int shift = 8 * pass;
      void* count_args[] = {&ids, &from_keys, &n, &rows, &shift, &totals, &runs, &clear};
      launch("digits", blocks, kThreads, count_args);
      scan(256LL * blocks);
      void* scatter_args[] = {&ids,    &from_keys,      &from_places,     &n, &rows, &shift,
                              &totals, &keys[pass % 2], &places[pass % 2]};
      launch("scatter", blocks, kThreads, scatter_args);
      from_keys = keys[pass % 2], from_places = places[pass % 2];
    }
    void* head_args[] = {&sorted_keys(), &n, &rows, &totals};
    launch("heads", blocks, kBlockThreads, head_args);
    scan(blocks);
    void* number_args[] = {&ids,    &sorted_keys(), &sorted_places(), &n,    &rows,
                           &totals, &starts,        &found,           &stray};
    launch("number", blocks, kBlockThreads, number_args);
  }
  void sum() {
    const auto blocks = static_cast<unsigned>(parts(n, kIdsOfBlock));
    const void* rows_in = all.rows;
    void *out_ids = all.out_ids, *out_rows = all.out_rows, *squares = all.squares;
    long long width = all.width;
    void* sum_args[] = {&sorted_keys(), &sorted_places(), &n,       &starts,   &found,
                        &rows_in,       &width,           &out_ids, &out_rows, &squares};
    launch(width <= 16   ? "sum_rows_1"
           : width <= 32 ? "sum_rows_2"
                         : "sum_rows_4",
           blocks, kThreads, sum_args);
    void* fill_args[] = {&sorted_keys(), &n, &found, &width, &out_ids, &out_rows, &squares};
    launch("fill_rows", blocks, kThreads, fill_args);
  }
};
}  // namespace

size_t table_row_scratch(int64_t count) { return static_cast<size_t>(Places(count).at.back()); }

void sum_table_rows(const Reductions::Rows& rows, void* scratch, StrayId* stray, const RowLaunch& launch) {
  if (rows.count == 0) return;
  Call call(rows, scratch, stray, launch);
  if (rows.count <= kOneBlockIds)
    call.sort_in_block();
  else
    call.sort_in_blocks();
  call.sum();
}

void put_table_rows(const Reductions::Placed& placed, const RowLaunch& launch) {
  if (placed.count == 0) return;
  LS_CHECK(placed.gates.size() <= kGateEntries, placed.gates.size(), " gates of rows, at most ",
           int{kGateEntries}, " fit a kernel");
  GateTable gates{};
  for (const auto& gate : placed.gates)
    gates.entry[gates.entries++] = {gate.value, gate.limit, kind_of(gate.dtype)};
  void* table = placed.table;
  const void *ids = placed.ids, *rows = placed.rows;
  long long n = placed.count, width = placed.width, table_rows = placed.table_rows;
  void* args[] = {&table, &ids, &rows, &n, &width, &table_rows, &gates};
  launch("put_rows", static_cast<unsigned>(parts(n, kIdsOfBlock)), kThreads, args);
}

}  // namespace lockstep::compiler::cuda
