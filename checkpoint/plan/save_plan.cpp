// SavePlan: finds distinct boxes and their holders, then gives the largest box to the least loaded holder.
#include "checkpoint/plan/save_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::checkpoint {

namespace {
struct Held {
  size_t tensor;
  Box box;
  int64_t bytes;
  std::vector<int64_t> holders;
};

// Distinct boxes of one tensor. Ranks that agree on the coordinates of all splitting mesh dims hold the same
// boxes.
void append_held(const std::vector<TensorSpec>& tensors, size_t index, const Mesh& mesh,
                 std::vector<Held>& out) {
  const TensorSpec& spec = tensors[index];
  int64_t element = static_cast<int64_t>(size_of(spec.dtype));
  std::vector<bool> splits(mesh.ndim(), false);
  for (const auto& [dim, placement] : spec.layout.splits) {
    LS_CHECK(placement.kind == Placement::Kind::shard, spec.fqn, " is ", text(placement),
             "; only Replicate and Shard are state");
    splits[dim] = true;
  }
  std::map<std::vector<int64_t>, std::vector<int64_t>> holders;  // by coordinate, replicated dims at 0
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    auto at = mesh.coordinate(rank);
    for (size_t d = 0; d < at.size(); ++d)
      if (!splits[d]) at[d] = 0;
    holders[at].push_back(rank);
  }
  size_t before = out.size();
  for (const auto& [at, ranks] : holders)
    for (const auto& piece : local_pieces(spec.layout, mesh, spec.shape, at))
      out.push_back({index, piece.global, numel(piece.global) * element, ranks});
  if (out.size() == before) {
    std::vector<int64_t> all(mesh.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    out.push_back({index, whole(spec.shape), 0, all});
  }
}
}  // namespace

std::vector<TensorSpec> specs_of(const std::vector<const Array*>& arrays) {
  std::vector<TensorSpec> out;
  for (const Array* array : arrays)
    out.push_back({array->fqn, array->dtype, array->shape, array->layout, array->updates});
  return out;
}

int64_t SavePlan::bytes_of(int64_t rank) const {
  int64_t sum = 0;
  for (const auto& chunk : by_rank[rank])
    sum += numel(chunk.box) * static_cast<int64_t>(size_of(tensors[chunk.tensor].dtype));
  return sum;
}

SavePlan plan_save(const std::vector<TensorSpec>& tensors, const Mesh& mesh) {
  SavePlan plan;
  plan.tensors = tensors;
  plan.by_rank.resize(mesh.size());
  std::set<std::string> names;
  std::vector<Held> held;
  std::string words = text(mesh);
  for (size_t i = 0; i < tensors.size(); ++i) {
    LS_CHECK(names.insert(tensors[i].fqn).second, "two tensors of the state are named ", tensors[i].fqn);
    append_held(tensors, i, mesh, held);
    words += str('\n', tensors[i].fqn, ' ', shape_text(tensors[i].dtype, tensors[i].shape), ' ',
                 text(tensors[i].layout, mesh));
  }
  plan.fingerprint = hash_hex(words);
  // Boxes with one holder are assigned first; the others follow, largest first.
  std::vector<size_t> order(held.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto choice = [&](size_t i) { return held[i].holders.size() > 1; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (choice(a) != choice(b)) return choice(b);
    return held[a].bytes > held[b].bytes;
  });
  // Greedy balancing: each box goes to its holder with the fewest bytes so far. It depends only on the specs
  // and the mesh, so all ranks compute the same plan.
  std::vector<int64_t> load(plan.by_rank.size(), 0);
  for (size_t i : order) {
    const auto& ranks = held[i].holders;
    int64_t best = *std::min_element(ranks.begin(), ranks.end(),
                                     [&](int64_t a, int64_t b) { return load[a] < load[b]; });
    load[best] += held[i].bytes;
    plan.by_rank[best].push_back({held[i].tensor, held[i].box});
  }
  // Larger elements first keeps every chunk aligned to its element size without padding between them.
  for (auto& list : plan.by_rank)
    std::stable_sort(list.begin(), list.end(), [&](const PlannedChunk& a, const PlannedChunk& b) {
      size_t x = size_of(tensors[a.tensor].dtype), y = size_of(tensors[b.tensor].dtype);
      if (x != y) return x > y;
      return a.tensor != b.tensor ? a.tensor < b.tensor : a.box.offset < b.box.offset;
    });
  return plan;
}

std::string chunk_name(const std::string& fqn, const Shape& shape, const Box& box) {
  return box.size == shape ? fqn : fqn + text(box);
}
std::string shard_name(int64_t rank, const std::string& tag) {
  return str("rank-", rank, tag, ".safetensors");
}

}  // namespace lockstep::checkpoint
