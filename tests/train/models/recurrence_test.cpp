// Unrolled recurrences: equal steps share kernels, however many there are, and parts that are made in place
// change no bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "compiler/compile/compile.h"
#include "compiler/runtime/executable.h"
#include "core/nn/recurrent.h"
#include "core/optim/adamw.h"
#include "tests/support/model_run.h"

namespace lockstep {
namespace {

constexpr int64_t kMicro = 2, kWidth = 16;

// A cell as a user writes it: tokens in the middle, gradients by autodiff.
struct Cell {
  explicit Cell(const Scope& at) : input(at / "input", kWidth, kWidth), state(at / "state", kWidth, kWidth) {}
  Tensor operator()(const Tensor& x) const {
    Tensor h = zeros(x, {x.size(0), kWidth});
    std::vector<Tensor> out;
    for (const Tensor& now : unbind(input(x), 1)) out.push_back(h = tanh(now + state(h)));
    return stack(out, 1);
  }
  Linear input, state;
};

template <class Layer>
std::set<std::string> kernels(int64_t tokens, const std::function<Layer(const Scope&)>& make) {
  State state(solo_mesh(), 1);
  const Layer layer = make(state.root());
  AdamW adamw(state / "optim", {});
  const auto plan = compiler::plan_step(state, state.mesh().words,
                                        {{"x", DType::f32, {kMicro, tokens, kWidth}}}, {kMicro, kMicro, 0},
                                        [&](const std::vector<Tensor>& batch) {
                                          Tensor y = layer(batch[0]);
                                          Loss loss{sum(y * y), full(y, {}, 1, DType::i64)};
                                          adamw.update(grad(loss, state.parameters()));
                                          return loss;
                                        },
                                        {});
  std::set<std::string> names;
  for (const auto& source : compiler::kernels_of(plan.body, plan.options)) names.insert(source.name);
  return names;
}

TEST(Recurrence, MoreStepsNeedNoMoreKernels) {
  const std::function<Lstm(const Scope&)> lstm = [](const Scope& at) { return Lstm(at, kWidth, kWidth, 2); };
  const std::function<Cell(const Scope&)> cell = [](const Scope& at) { return Cell(at); };
  EXPECT_EQ(kernels(12, lstm).size(), kernels(60, lstm).size());
  EXPECT_LT(kernels(60, lstm).size(), 30u);
  // Sums of as many gradients of the weight as there are steps are cut where a kernel is full.
  EXPECT_LE(kernels(60, cell).size(), kernels(20, cell).size() + 4);
}

TEST(Recurrence, HasTheSameBitsWhereNothingIsMadeInPlace) {
  const tests::ModelRun run{.kind = "lstm",
                            .options = {{"vocab", 17}, {"context", 19}, {"width", 8}, {"hidden", 6}}};
  const auto native = train_model(run);
  tests::ModelRun eager = run;
  eager.backend = compiler::Backend::eager;
  EXPECT_EQ(train_model(eager).losses, native.losses);
  for (const char* skipped : {"mark_views", "mark_views,join_pads"}) {
    setenv("LOCKSTEP_SKIP_PASSES", skipped, 1);
    const auto plain = train_model(run);
    unsetenv("LOCKSTEP_SKIP_PASSES");
    EXPECT_EQ(plain.losses, native.losses) << skipped;
    EXPECT_EQ(plain.hash, native.hash) << skipped;
  }
}

}  // namespace
}  // namespace lockstep
