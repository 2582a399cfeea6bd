// Packs pieces by best fit into a few open rows.
#include "launcher/data/documents/packing.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep::launcher::data {

void PackedPieces::alone(RowPiece piece) {
  LS_CHECK(piece.count > 0 && piece.count <= context_, piece.count);
  pieces_.push_back(piece), row_of_.push_back(rows_++);
  inputs_ += piece.count;
}

void PackedPieces::packed(RowPiece piece) {
  Open* best = nullptr;
  for (auto& open : open_)
    if (open.room >= piece.count && (!best || open.room < best->room)) best = &open;
  if (!best) {
    alone(piece);
    if (open_.size() == kOpen)
      open_.erase(std::min_element(open_.begin(), open_.end(),
                                   [](const Open& a, const Open& b) { return a.room < b.room; }));
    open_.push_back({rows_ - 1, context_ - piece.count});
    return;
  }
  pieces_.push_back(piece), row_of_.push_back(best->row);
  best->room -= piece.count;
  inputs_ += piece.count;
}

void PackedPieces::finish() {
  // A stable counting sort of the pieces by row.
  first_.assign(static_cast<size_t>(rows_) + 1, 0);
  for (int64_t row : row_of_) ++first_[static_cast<size_t>(row) + 1];
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  std::vector<int64_t> at(first_.begin(), first_.end() - 1);
  std::vector<RowPiece> sorted(pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i)
    sorted[static_cast<size_t>(at[static_cast<size_t>(row_of_[i])]++)] = pieces_[i];
  pieces_ = std::move(sorted);
  row_of_ = {}, open_ = {};
}

}  // namespace lockstep::launcher::data
