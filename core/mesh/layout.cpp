// Converts layouts to boxes: each tensor dim has a list of ranges, which every split in turn cuts; the
// product of the lists is the rank's pieces.
#include "core/mesh/layout.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

namespace {
using Ranges = std::vector<std::pair<int64_t, int64_t>>;  // {offset, size} in global coordinates

// The part [from, from + size) of the concatenated ranges.
void append_slice(const Ranges& ranges, int64_t from, int64_t size, Ranges& out) {
  int64_t at = 0;
  for (auto [offset, length] : ranges) {
    int64_t lo = std::max(from, at), hi = std::min(from + size, at + length);
    if (hi > lo) {
      if (!out.empty() && out.back().first + out.back().second == offset + lo - at)
        out.back().second += hi - lo;
      else
        out.emplace_back(offset + lo - at, hi - lo);
    }
    at += length;
  }
}

int64_t total(const Ranges& ranges) {
  int64_t sum = 0;
  for (auto [offset, size] : ranges) sum += size;
  return sum;
}

// Each split takes the rank's balanced part of the ranges that earlier splits have left. A grouped split
// takes this part of each of `groups` equal sections.
std::vector<Ranges> dim_ranges(const Layout& layout, const Mesh& mesh, const Shape& shape,
                               const std::vector<int64_t>& coordinate) {
  std::vector<Ranges> dims;
  for (int64_t size : shape) dims.push_back(size ? Ranges{{0, size}} : Ranges{});
  for (const auto& [mesh_dim, placement] : layout.splits) {
    bool splits = placement.kind == Placement::Kind::shard ||
                  (placement.kind == Placement::Kind::per_lane && placement.dim >= 0);
    if (!splits) continue;
    LS_CHECK(placement.dim < static_cast<int>(shape.size()), text(placement), " of a tensor of ",
             shape.size(), " dims");
    Ranges& ranges = dims[placement.dim];
    int64_t length = total(ranges);
    if (length % placement.groups)
      throw UserError(str(text(placement), ": tensor dim of size ", length, " does not divide into ",
                          placement.groups, " groups"));
    int64_t group = length / placement.groups;
    Ranges mine;
    for (int g = 0; g < placement.groups; ++g) {
      auto [offset, size] = balanced(group, mesh.shape[mesh_dim], coordinate[mesh_dim]);
      append_slice(ranges, g * group + offset, size, mine);
    }
    ranges = mine;
  }
  return dims;
}
}  // namespace

Placement Layout::on(int mesh_dim) const {
  for (const auto& [dim, placement] : splits)
    if (dim == mesh_dim) return placement;
  return Replicate();
}
void Layout::set(int mesh_dim, Placement placement) {
  for (size_t i = 0; i < splits.size(); ++i)
    if (splits[i].first == mesh_dim) {
      if (placement == Replicate())
        splits.erase(splits.begin() + static_cast<int64_t>(i));
      else
        splits[i].second = placement;
      return;
    }
  if (!(placement == Replicate())) splits.emplace_back(mesh_dim, placement);
}
std::string text(const Layout& layout, const Mesh& mesh) {
  std::string out = "{";
  for (size_t i = 0; i < layout.splits.size(); ++i)
    out += str(i ? ", " : "", mesh.dim_names[layout.splits[i].first], ": ", text(layout.splits[i].second));
  return out + "}";
}

// The first size % parts parts have one element more.
std::pair<int64_t, int64_t> balanced(int64_t size, int64_t parts, int64_t index) {
  int64_t base = size / parts, extra = size % parts;
  return {index * base + std::min(index, extra), base + (index < extra ? 1 : 0)};
}

// In the global frame the local tensor starts `local.offset` before the piece.
Box Piece::frame(const Shape& local_shape) const {
  Box out{global.offset, local_shape};
  for (size_t i = 0; i < out.offset.size(); ++i) out.offset[i] -= local.offset[i];
  return out;
}

std::vector<Piece> local_pieces(const Layout& layout, const Mesh& mesh, const Shape& shape,
                                const std::vector<int64_t>& coordinate) {
  auto dims = dim_ranges(layout, mesh, shape, coordinate);
  std::vector<Piece> out{Piece{}};
  for (const auto& ranges : dims) {
    std::vector<Piece> next;
    for (const auto& piece : out) {
      int64_t local = 0;
      for (auto [offset, size] : ranges) {
        Piece longer = piece;
        longer.global.offset.push_back(offset);
        longer.global.size.push_back(size);
        longer.local.offset.push_back(local);
        longer.local.size.push_back(size);
        local += size;
        next.push_back(std::move(longer));
      }
    }
    out = std::move(next);
  }
  return out;
}

Shape local_shape(const Layout& layout, const Mesh& mesh, const Shape& shape,
                  const std::vector<int64_t>& coordinate) {
  Shape out;
  for (const auto& ranges : dim_ranges(layout, mesh, shape, coordinate)) out.push_back(total(ranges));
  return out;
}

Shape padded_local_shape(const Layout& layout, const Mesh& mesh, const Shape& shape) {
  // The first rank along each mesh dim holds the larger part.
  return local_shape(layout, mesh, shape, std::vector<int64_t>(mesh.shape.size(), 0));
}

}  // namespace lockstep
