// Computes sums of squares as integers, each element on one rank, and adds them over all ranks at once.
#include "launcher/loop/weight_norms.h"

#include <cstring>
#include <span>

#include "compiler/codegen/sums/exact_norm.h"
#include "core/types/dtype.h"

namespace lockstep::launcher {

namespace {
compiler::Limbs squares(const Array& array) {
  array.fetch();
  compiler::Limbs sum;
  std::vector<double> part;
  const Box all = whole(array.shape);
  for (const auto& piece : array.pieces)
    for_each_run(piece.global, all, piece.frame(array.local_shape),
                 [&](int64_t, int64_t local, int64_t count) {
                   constexpr int64_t kPart = 4096;
                   for (int64_t from = local; from < local + count; from += kPart) {
                     part.clear();
                     for (int64_t i = from; i < std::min(local + count, from + kPart); ++i) {
                       const double value = get_double(array.dtype, array.data.data(), i);
                       part.push_back(value * value);  // exact: a float has 24 bits
                     }
                     sum.add(std::span<const double>(part));
                   }
                 });
  sum.normalise();
  return sum;
}
}  // namespace

std::vector<std::pair<std::string, float>> weight_norms(State& state) {
  const LiveMesh& mesh = state.mesh();
  std::vector<compiler::Limbs> sums;
  std::vector<std::pair<std::string, float>> out;
  for (const Parameter& parameter : state.parameters()) {
    const Array& array = *state.find(parameter.fqn());
    sums.push_back(is_first_replica(array, mesh.words, mesh.rank) ? squares(array) : compiler::Limbs{});
    out.emplace_back(parameter.fqn(), 0.0f);
  }
  const size_t count = sizeof(compiler::Limbs::words) / sizeof(int64_t);
  std::vector<int64_t> words(sums.size() * count);
  for (size_t i = 0; i < sums.size(); ++i)
    std::memcpy(&words[i * count], sums[i].words, sizeof sums[i].words);
  if (mesh.world->size() > 1)
    all_reduce(*mesh.world,
               {words.data(), words.data(), static_cast<int64_t>(words.size()), DType::i64, ReduceOp::sum},
               "weight_norms");
  for (size_t i = 0; i < sums.size(); ++i) {
    std::memcpy(sums[i].words, &words[i * count], sizeof sums[i].words);
    sums[i].normalise();
    out[i].second = sums[i].norm();
  }
  return out;
}

}  // namespace lockstep::launcher
