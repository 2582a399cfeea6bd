// A click model with sparse tables, trained for a few steps on any mesh.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "compiler/compile/compile.h"
#include "core/base/philox.h"
#include "core/nn/layers.h"
#include "core/optim/rowwise_adagrad.h"
#include "core/optim/sgd.h"
#include "core/optim/sparse_adam.h"
#include "distributed/local/local_world.h"

namespace lockstep {

using namespace compiler;
using Batch = std::vector<Tensor>;
using Made = std::unique_ptr<Optimizer>;
using Make = std::function<Made(State&)>;

// A table read twice, one read by bags, a dense layer; clipping that reads all.
inline constexpr int64_t kWidth = 4, kMicro = 2, kGlobal = 12, kBag = 5, kWords = 31;
inline const std::vector<BatchField> kFields{
    {"ids", DType::i32, {kMicro, kBag}}, {"x", DType::f32, {kMicro, kWidth}}, {"y", DType::f32, {kMicro, 3}}};
struct Clicks {
  Clicks(State& s, bool sparse)
      : words(s / "words", kWords, kWidth, EmbeddingOptions{init::normal(0.3), sparse}),
        bags(s / "bags", kWords, kWidth, EmbeddingOptions{init::normal(0.3), sparse}),
        out(s / "out", kWidth, 3) {}
  Loss loss(const Batch& b) const {
    Tensor mixed = embedding_bag(bags.weight.computed(b[0]), b[0], Bag::mean);
    Tensor x = sum(words(b[0]), {1}) + words(select(b[0], 1, 0)) + mixed + b[1];
    return mse_loss(out(tanh(x)), b[2]);
  }
  Embedding words, bags;
  Linear out;
};

inline void fill(int64_t step, int64_t first, int64_t count, const std::vector<void*>& to) {
  for (size_t f = 0; f < kFields.size(); ++f) {
    const int64_t each = numel(kFields[f].shape) / kMicro;
    for (int64_t e = 0; e < count * each; ++e) {
      const float u = philox::uniform(
          philox::bits(9, f, static_cast<uint64_t>(step % 3), static_cast<uint64_t>(first * each + e)));
      if (f == 0)
        static_cast<int32_t*>(to[f])[e] = static_cast<int32_t>(u * 12);
      else
        static_cast<float*>(to[f])[e] = 2 * u - 1;
    }
  }
}

struct Result {
  std::vector<double> losses, norms;
  std::string hash, certificate;
  std::map<std::string, std::vector<float>> state;
  std::map<std::string, int64_t> last_rank_bytes;
};
struct How {
  bool sparse = true;
  DType compute = DType::f32;
  int zero = 3;
  int64_t steps = 6;
  CompileOptions options = {};
  std::string load = {}, save = {};  // folders of checkpoints
  std::vector<PlacementRule> rules = {};
  bool recompute = false;  // a micro-batch behind each step, which must give the same on all ranks
};
// The checksums of micro-batch m, in all ranks' own words; InternalError where they differ.
inline void expect_alike(Step& step, const StepInput& fed, int64_t m, Group& world) {
  const auto all = all_gather_text(world, str(step.recompute(fed, m)));
  for (const auto& one : all)
    LS_CHECK(one == all[0] && one != "[]", "micro-batch ", m, " gives ", all[0], " and ", one);
}
inline Result train(const Make& make, const Mesh& words, const How& how = {}) {
  Result out;
  std::map<std::string, int64_t> last_rank_bytes;
  distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    state.zero(how.zero);
    const Clicks model(state, how.sparse);
    const Made optimizer = make(state);
    state.place(how.rules);
    state.compute_dtype(how.compute);
    Step step = compile(
        state, kFields, {kGlobal, kMicro, 0},
        [&](const Batch& batch) {
          Loss loss = model.loss(batch);
          optimizer->update(grad(loss, state.parameters()));
          return loss;
        },
        how.options);
    int64_t done = 0;
    if (how.load.empty()) {
      state.materialize();
    } else {
      state.allocate();
      done = checkpoint::load_latest(how.load, state.arrays(), mesh)->step;
    }
    Result mine;
    for (int64_t i = done + 1; i <= how.steps; ++i) {
      const StepInput fed{
          i, [&](int64_t first, int64_t count, const std::vector<void*>& to) { fill(i, first, count, to); }};
      auto result = step.run(fed);
      if (how.recompute) expect_alike(step, fed, i % (kGlobal / kMicro), *mesh.world);
      mine.losses.push_back(result.metrics.at("loss")), mine.norms.push_back(result.metrics.at("grad_norm"));
    }
    mine.hash = state_hash(std::as_const(state).arrays(), mesh);
    mine.certificate = step.certificate();
    if (!how.save.empty())
      checkpoint::save_checkpoint(how.save, {how.steps, Json::object(), step.certificate(), Json::object()},
                                  std::as_const(state).arrays(), mesh, 0);
    if (mesh.rank + 1 == mesh.words.size())
      for (const Array* array : state.arrays())
        last_rank_bytes[array->fqn] = static_cast<int64_t>(array->local_bytes());
    if (mesh.rank != 0) return;
    for (Array* array : state.arrays())
      if (array->dtype == DType::f32)
        mine.state[array->fqn] = {array->data.as<float>(), array->data.as<float>() + array->local_numel()};
    out = std::move(mine);
  });
  out.last_rank_bytes = std::move(last_rank_bytes);
  return out;
}

inline std::map<std::string, Make> clipped() {
  return {{"sparse_adam",
           [](State& s) {
             return std::make_unique<SparseAdam>(s / "optim", SparseAdamOptions{.lr = 0.02, .clip = 0.3});
           }},
          {"adagrad",
           [](State& s) {
             return std::make_unique<Adagrad>(s / "optim", AdagradOptions{.lr = 0.1, .clip = 0.3});
           }},
          {"sgd",
           [](State& s) { return std::make_unique<Sgd>(s / "optim", SgdOptions{.lr = 0.1, .clip = 0.3}); }},
          {"rowwise_adagrad", [](State& s) {
             return std::make_unique<RowwiseAdagrad>(s / "optim", AdagradOptions{.lr = 0.1, .clip = 0.3});
           }}};
}

}  // namespace lockstep
