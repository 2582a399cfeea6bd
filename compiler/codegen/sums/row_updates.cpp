// Updates pieces of tables in turn; each thread has one piece of the gradient in its cache.
#include "compiler/codegen/sums/row_updates.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
constexpr int64_t kPiece = 16384;  // elements of a table updated at once

// The rows [row, row + rows) of a table.
struct Piece {
  size_t table = 0;
  int64_t row = 0, rows = 0;
};

std::vector<Piece> pieces_of(const ByRows& launch) {
  std::vector<Piece> out;
  for (size_t t = 0; t < launch.tables.size(); ++t) {
    const int64_t width = launch.tables[t].width, rows = width ? launch.numels[t] / width : 0;
    const int64_t each = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, width));
    for (int64_t row = 0; row < rows; row += each) out.push_back({t, row, std::min(each, rows - row)});
  }
  return out;
}

class Worker {
 public:
  Worker(MultiTensorFn kernel, const ByRows& launch)
      : kernel_(kernel),
        launch_(launch),
        columns_(launch.element_size.size()),
        per_tensor_(launch.per_tensor.size() / launch.tables.size()),
        pointers_(columns_) {
    int64_t most = kPiece;
    for (const auto& table : launch.tables) most = std::max(most, table.width);
    gradient_.resize(most);
  }
  void run(const Piece& piece) {
    const ByRows::Table& table = launch_.tables[piece.table];
    const int64_t from = table.first + piece.row;
    const int32_t *begin = std::lower_bound(table.ids, table.ids + table.count, from),
                  *end = std::lower_bound(begin, table.ids + table.count, from + piece.rows);
    const auto bytes = static_cast<size_t>(table.width) * sizeof(float);
    for (const int32_t* id = begin; id < end; ++id)
      if (id == begin || *id != id[-1])
        std::memcpy(gradient_.data() + (*id - from) * table.width,
                    table.rows + (id - table.ids) * table.width, bytes);
    const int64_t at = piece.row * table.width, count = piece.rows * table.width;
    for (size_t c = 0; c < columns_; ++c) {
      void* const whole = launch_.table[piece.table * columns_ + c];
      pointers_[c] = c == launch_.input ? static_cast<void*>(gradient_.data())
                                        : static_cast<std::byte*>(whole) +
                                              at * static_cast<int64_t>(launch_.element_size[c]);
    }
    kernel_(pointers_.data(), &count, launch_.per_tensor.data() + piece.table * per_tensor_, 1,
            launch_.scalars.data(), 1);
    for (const int32_t* id = begin; id < end; ++id)
      std::memset(gradient_.data() + (*id - from) * table.width, 0, bytes);
  }

 private:
  MultiTensorFn kernel_;
  const ByRows& launch_;
  size_t columns_, per_tensor_;
  std::vector<void*> pointers_;
  std::vector<float> gradient_;  // of a piece; all zeros between two pieces
};
}  // namespace

void update_by_rows(MultiTensorFn kernel, const ByRows& launch, int threads) {
  LS_CHECK(launch.input < launch.element_size.size() &&
               launch.table.size() == launch.tables.size() * launch.element_size.size(),
           "a launch over ", launch.tables.size(), " tables has ", launch.table.size(), " pointers");
  const std::vector<Piece> pieces = pieces_of(launch);
  const auto count = static_cast<int64_t>(pieces.size());
#pragma omp parallel num_threads(threads) if (threads > 1 && count > 1)
  {
    Worker worker(kernel, launch);
#pragma omp for schedule(static)
    for (int64_t p = 0; p < count; ++p) worker.run(pieces[p]);
  }
}

}  // namespace lockstep::compiler
