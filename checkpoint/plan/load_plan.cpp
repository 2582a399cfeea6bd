// LoadPlan: intersects each piece with each stored chunk.
#include "checkpoint/plan/load_plan.h"

#include <algorithm>
#include <unordered_map>

namespace lockstep::checkpoint {

std::vector<PlannedRead> plan_load(const Manifest& manifest, const std::vector<Array*>& arrays) {
  std::unordered_map<std::string_view, const TensorRecord*> by_fqn;
  for (const auto& tensor : manifest.tensors) by_fqn[tensor.fqn] = &tensor;
  std::vector<PlannedRead> out;
  for (size_t a = 0; a < arrays.size(); ++a) {
    auto found = by_fqn.find(arrays[a]->fqn);
    if (found == by_fqn.end() || arrays[a]->pieces.empty()) continue;
    for (const Chunk& chunk : found->second->chunks) {
      PlannedRead read{found->second, &chunk, {}};
      for (size_t p = 0; p < arrays[a]->pieces.size(); ++p)
        if (intersect(chunk.box, arrays[a]->pieces[p].global)) read.targets.push_back({a, p});
      if (!read.targets.empty()) out.push_back(std::move(read));
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const PlannedRead& x, const PlannedRead& y) {
    return x.chunk->file != y.chunk->file ? x.chunk->file < y.chunk->file : x.chunk->offset < y.chunk->offset;
  });
  return out;
}

}  // namespace lockstep::checkpoint
