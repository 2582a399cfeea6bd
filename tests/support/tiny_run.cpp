// A small model trained in one process.
#include "tests/support/tiny_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "checkpoint/checkpoint.h"
#include "compiler/runtime/replicas.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"
#include "distributed/mesh/device_mesh.h"

namespace lockstep::tests {

using namespace compiler;
using namespace distributed;

TinyResult train_tiny(const TinyRun& run) {
  std::mutex mutex;
  const Mesh words = run.mesh.shape.empty() ? Mesh{{run.ranks}, {"dp_replicate"}} : run.mesh;
  std::vector<TinyResult> results(static_cast<size_t>(words.size()));
  with_world(static_cast<int>(words.size()), [&](std::shared_ptr<World> world) {
    LiveMesh mesh = live_mesh(world, words);
    join_nodes(mesh, *world, run.ranks_per_node, data_ranks_per_node(words, run.ranks_per_node));
    State state(mesh, 7);
    state.zero(run.zero);
    state.compute_dtype(run.compute);
    Json options = {{"vocab", run.vocab}, {"context", run.context}, {"width", run.width},
                    {"depth", run.depth}, {"heads", run.heads},     {"dropout", run.dropout}};
    if (run.model == "llama") options.update({{"kv_heads", run.kv_heads}, {"hidden", 40}});
    auto model = models::build(state.root(), run.model, options);
    if (run.float8) state.float8(run.float8_options);
    const std::unique_ptr<Optimizer> optimizer =
        run.optimizer
            ? run.optimizer(state)
            : std::make_unique<AdamW>(state / "optim",
                                      AdamWOptions{.lr = warmup_cosine(1e-2, 2, 10), .clip = run.clip});
    state.place_by_default(model.placements);
    if (!run.rows.empty()) state.place(run.rows);
    Shape shape{run.micro, run.context};
    Step step = compile(
        state, {{"ids", DType::i32, shape}, {"targets", DType::i32, shape}},
        {run.global, run.micro, run.lanes},
        [&](const std::vector<Tensor>& batch) {
          Loss loss = cross_entropy(model.logits(batch[0], true), batch[1]);
          optimizer->update(grad(loss, state.parameters()));
          return loss;
        },
        run.options);
    TinyResult mine;
    int64_t done = 0;
    if (run.load.empty()) {
      state.materialize();
    } else {
      auto loaded = checkpoint::load_latest(run.load, state.arrays(), mesh);
      if (!loaded) throw InternalError(str("no checkpoint in ", run.load));
      done = loaded->step, mine.loaded = loaded->state_hash;
    }
    for (int64_t i = done + 1; i <= run.steps; ++i) {
      auto fill = [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
        for (int64_t s = 0; s < count; ++s)
          for (int64_t t = 0; t < run.context; ++t) {
            auto token = [&](int64_t at) {
              return static_cast<int32_t>(philox::bits(1, 2, static_cast<uint64_t>(i),
                                                       static_cast<uint64_t>((first + s) * 1000 + at / 2)) %
                                          static_cast<uint32_t>(run.vocab));
            };
            static_cast<int32_t*>(fields[0])[s * run.context + t] = token(t);
            bool masked = run.mask_every && ((first + s) * run.context + t) % run.mask_every == 0;
            static_cast<int32_t*>(fields[1])[s * run.context + t] = masked ? -100 : token(t + 1);
          }
      };
      StepInput fed{i, fill};
      if (run.blocked.count(i)) fed.norm_limit = 1e-20f;
      fed.check_replicas = true;
      fed.trace = run.traced && i == run.steps;
      if (run.flipped == i && mesh.rank == 1) {
        Array& weight = *state.arrays()[0];
        weight.fetch();
        weight.data.data()[1] ^= std::byte{0x08};
        weight.host_wrote();
      }
      auto result = step.run(fed);
      if (run.after_step) run.after_step(mesh, step, fed);
      if (fed.trace) {
        std::lock_guard guard(mutex);
        run.traced(step, *result.traced);
      }
      if (result.applied == (run.blocked.count(i) > 0))
        throw InternalError(str("step ", i, " was ", result.applied ? "" : "not ", "applied"));
      if (mine.differs.empty())
        if (auto words = replica_difference(step.replicas(), result.replica_sums, *mesh.world);
            !words.empty())
          mine.differs = str("step ", i, ": ", words);
      int64_t word = replica_word(step.replicas(), result.replica_sums);
      all_reduce(*mesh.world, {&word, &word, 1, DType::i64, ReduceOp::sum}, "words");
      if ((word == 0) != (mine.differs.rfind(str("step ", i, ":"), 0) != 0))
        throw InternalError(str("step ", i, ": the words add up to ", word, ", and ", mine.differs));
      mine.losses.push_back(number_text(static_cast<float>(result.metrics.at("loss"))));
      mine.norms.push_back(number_text(static_cast<float>(result.metrics.at("grad_norm"))));
    }
    mine.hash = state_hash(std::as_const(state).arrays(), mesh);
    mine.certificate = step.certificate();
    mine.state_bytes = state.bytes_per_rank();
    mine.recompute = step.plan().recompute;
    mine.arena = step.arena_bytes();
    if (!run.save.empty())
      checkpoint::save_checkpoint(run.save, {run.steps, Json::object(), mine.certificate, Json::object()},
                                  std::as_const(state).arrays(), mesh, 0);
    std::lock_guard guard(mutex);
    if (run.observe) run.observe(mesh, step);
    results[static_cast<size_t>(mesh.rank)] = mine;
  });
  for (TinyResult result : results) {
    result.arena = results[0].arena;  // ranks may have different numbers of micro-batches
    if (!(result == results[0])) throw InternalError("ranks report different losses, hashes or certificates");
  }
  return results[0];
}

void expect_same_bits(const TinyResult& a, const TinyResult& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_EQ(a.hash, b.hash) << what;
}
void expect_same(const TinyResult& a, const TinyResult& b, const std::string& what) {
  expect_same_bits(a, b, what);
  EXPECT_EQ(a.certificate, b.certificate) << what;
}

double relative_difference(const std::string& a, const std::string& b) {
  double x = std::stod(a), y = std::stod(b);
  return std::abs(x - y) / std::max(std::abs(x), 1e-30);
}

}  // namespace lockstep::tests
