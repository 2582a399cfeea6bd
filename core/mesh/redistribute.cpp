// Redistribution: intersect what is needed with what is held.
#include "core/mesh/redistribute.h"

#include "core/base/error.h"

namespace lockstep {

std::vector<Transfer> redistribute(const Shape& shape, const Layout& from, const Mesh& from_mesh,
                                   const Layout& to, const Mesh& to_mesh) {
  for (const Layout* layout : {&from, &to})
    for (const auto& [dim, placement] : layout->splits)
      LS_CHECK(placement.kind == Placement::Kind::shard, text(placement), " has no boxes to move");
  std::vector<std::vector<Piece>> held;
  for (int64_t r = 0; r < from_mesh.size(); ++r)
    held.push_back(local_pieces(from, from_mesh, shape, from_mesh.coordinate(r)));
  std::vector<Transfer> out;
  int64_t turn = 0;
  for (int64_t r = 0; r < to_mesh.size(); ++r) {
    for (const auto& piece : local_pieces(to, to_mesh, shape, to_mesh.coordinate(r))) {
      std::vector<Box> missing{piece.global};
      // Own boxes first, then the other holders, starting at a different one each time so that replicas share
      // the load.
      std::vector<int64_t> order;
      if (r < from_mesh.size()) order.push_back(r);
      for (int64_t i = 0; i < from_mesh.size(); ++i)
        if (int64_t s = (turn + i) % from_mesh.size(); s != r || r >= from_mesh.size()) order.push_back(s);
      ++turn;
      for (int64_t s : order) {
        for (const auto& have : held[s]) {
          std::vector<Box> still;
          for (const auto& want : missing) {
            auto common = intersect(want, have.global);
            if (!common) {
              still.push_back(want);
              continue;
            }
            out.push_back({s, r, *common});
            // What is left of `want` around `common`: peel off one dim after another.
            Box rest = want;
            for (size_t d = 0; d < rest.size.size(); ++d) {
              Box low = rest, high = rest;
              low.size[d] = common->offset[d] - rest.offset[d];
              high.offset[d] = common->offset[d] + common->size[d];
              high.size[d] = rest.offset[d] + rest.size[d] - high.offset[d];
              if (numel(low) > 0) still.push_back(low);
              if (numel(high) > 0) still.push_back(high);
              rest.offset[d] = common->offset[d];
              rest.size[d] = common->size[d];
            }
          }
          missing = std::move(still);
        }
        if (missing.empty()) break;
      }
      LS_CHECK(missing.empty(), "no rank holds ", text(missing.empty() ? Box{} : missing[0]));
    }
  }
  return out;
}

}  // namespace lockstep
