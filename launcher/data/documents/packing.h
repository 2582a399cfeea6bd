// Packs documents, or pieces of them, into the rows of a step so that little padding remains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::launcher::data {

// Tokens of a store in one row: inputs begin ... begin + count - 1, each with the next token as its target.
struct RowPiece {
  int64_t begin;
  int32_t store, count;
};

// Rows of at most `context` inputs; row i has pieces[first[i]] ... pieces[first[i + 1] - 1].
class PackedPieces {
 public:
  explicit PackedPieces(int64_t context) : context_(context) {}
  void alone(RowPiece piece);  // gets its own row
  void packed(
      RowPiece piece);  // goes into the fullest open row (at most kOpen) with room, else into a new one
  void finish();        // no piece may be added afterwards

  int64_t size() const { return static_cast<int64_t>(first_.size()) - 1; }
  int64_t inputs() const { return inputs_; }
  // The pieces of a row.
  const RowPiece* begin(int64_t row) const { return pieces_.data() + first_[static_cast<size_t>(row)]; }
  const RowPiece* end(int64_t row) const { return pieces_.data() + first_[static_cast<size_t>(row) + 1]; }

 private:
  static constexpr size_t kOpen = 128;
  struct Open {
    int64_t row, room;
  };
  int64_t context_, inputs_ = 0, rows_ = 0;
  std::vector<Open> open_;
  std::vector<RowPiece> pieces_;  // in the order given, until finish
  std::vector<int64_t> row_of_;   // of each, until finish
  std::vector<int64_t> first_{0};
};

}  // namespace lockstep::launcher::data
