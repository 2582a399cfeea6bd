// What all ways of a bucket's sum share.
#include "compiler/program/bucket_sum.h"

#include "core/base/error.h"

namespace lockstep::compiler {

void SumTurns::stage(BucketSum* bucket) {
  if (staged && staged != bucket) staged->advance();
  staged = bucket;
}

std::vector<Accumulate::Piece> bucket_pieces(const PackedRows& rows, const std::vector<Span>& gradients) {
  LS_CHECK(gradients.size() == rows.tensors(), gradients.size(), " gradients for ", rows.tensors(),
           " tensors");
  const auto size = static_cast<int64_t>(size_of(rows.dtype()));
  std::vector<Accumulate::Piece> out;
  for (const auto& run : rows.layout())
    out.push_back({gradients[run.tensor].part(run.from * size, run.count * size), run.at, rows.dtype()});
  return out;
}

SumTrees::Tree BucketSum::tree_of(size_t tensor, Span out, Span row_squares) const {
  SumTrees::Tree tree = addends_of(tensor);
  tree.out = out.there() ? out : tree.sources.at(0).at;
  tree.row_squares = row_squares;
  return tree;
}

}  // namespace lockstep::compiler
