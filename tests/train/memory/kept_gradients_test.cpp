// Where one micro-batch on one data rank is all there is, gradients stay where backward left them, in their
// dtype: no copy of them in f32, and the bits of ranks that have one.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/program/build/build.h"
#include "compiler/program/show/folds.h"
#include "compiler/program/show/print.h"
#include "core/nn/assign.h"
#include "core/optim/adafactor.h"
#include "core/optim/muon.h"
#include "core/optim/sgd.h"
#include "tests/support/tiny_program.h"

namespace lockstep::tests {

using namespace compiler;

namespace {

TinyRun one_micro_batch(DType compute = DType::bf16) {
  TinyRun run{.compute = compute, .global = 4, .micro = 4, .mask_every = 7};
  if (compute == DType::bf16) run.options.precision = "bf16";
  return run;
}
const Mesh kTwo{{2}, {"dp_replicate"}};

struct Sums {
  int stay = 0, written = 0;  // trees
  int64_t bytes = 0;          // of regions that they are written to
  int64_t halves = 0;         // updates that read bf16
};
Sums sums_of(const StepProgram& program) {
  Sums out;
  for (const Instr& instr : program.instrs) {
    if (const auto* sums = std::get_if<SumTrees>(&instr.what))
      for (const auto& tree : sums->trees) {
        tree.stays() ? ++out.stay : ++out.written;
        if (program.regions[tree.out.region].kind == Region::Kind::value) out.bytes += tree.out.bytes;
      }
    if (const auto* update = std::get_if<UpdateTensors>(&instr.what))
      out.halves += std::count_if(update->tensors.begin(), update->tensors.end(),
                                  [](const auto& tensor) { return !tensor.halves.empty(); });
  }
  return out;
}

class KeptGradientsOf : public testing::TestWithParam<std::string> {};

// The other ranks have no micro-batch, and own rows of the sums in f32.
TEST_P(KeptGradientsOf, GiveTheBitsOfSumsInF32) {
  TinyRun run = one_micro_batch();
  run.model = GetParam(), run.dropout = 0.1, run.blocked = {2};
  const TinyResult one = train_tiny(run);
  EXPECT_NE(one.losses.front(), one.losses.back()) << "training changes nothing";
  expect_same(one, train_tiny(on(run, kTwo)), "2 ranks");
  for (int zero : {1, 3})
    expect_same(one, train_tiny(on(run, {{2}, {"dp_shard"}}, zero)), str("zero ", zero, " on 2 ranks"));
  run.options.backend = Backend::eager;
  expect_same_bits(one, train_tiny(run), "eager");
  run.options.backend = Backend::reference;
  expect_same(train_tiny(run), train_tiny(on(run, kTwo)), "by the reference evaluator, 1 and 2 ranks");
}
INSTANTIATE_TEST_SUITE_P(Models, KeptGradientsOf, testing::Values("gpt", "llama"));

TEST(KeptGradients, AreNoSecondCopy) {
  const StepProgram half = program_of(one_micro_batch()), full = program_of(one_micro_batch(DType::f32));
  for (const StepProgram* program : {&half, &full}) {
    const Sums sums = sums_of(*program);
    EXPECT_GT(sums.stay, 20);
    EXPECT_EQ(sums.written, 0);
    EXPECT_EQ(sums.bytes, 0);
  }
  EXPECT_GT(sums_of(half).halves, 20);
  EXPECT_EQ(sums_of(full).halves, 0);
  EXPECT_NE(print(half).find(str("of them ", sums_of(half).halves, " by gradients in bf16")),
            std::string::npos);
  // Beside the squares of rows, norms and the loss there are rounded weights alone.
  int64_t rounded = 0, squares = 0;
  for (const Region& region : half.regions) {
    if (region.name.starts_with("rounded ")) rounded += region.bytes;
    if (region.name.starts_with("sums %")) squares += region.bytes;
  }
  EXPECT_LT(squares, rounded);
  EXPECT_LT(held_bytes(half).reduction(), rounded + squares + 256);
}

TEST(KeptGradients, AreAddedWhereThereIsMoreThanOne) {
  TinyRun two = one_micro_batch();
  two.global = 8;
  for (const StepProgram& program : {program_of(two), program_of(on(one_micro_batch(), kTwo))})
    EXPECT_EQ(sums_of(program).halves, 0);
}

// Their optimizers look at whole matrices, and first of all at elements of gradients.
TEST(KeptGradients, GoToUpdatesOfAnyKind) {
  for (const std::string kind : {"muon", "adafactor", "sgd"}) {
    TinyRun run = one_micro_batch();
    run.optimizer = [kind](State& state) -> std::unique_ptr<Optimizer> {
      if (kind == "muon")
        return std::make_unique<Muon>(state / "optim", MuonOptions{.lr = 0.02, .clip = 1.0},
                                      AdamWOptions{.lr = 1e-2});
      if (kind == "sgd") return std::make_unique<Sgd>(state / "optim", SgdOptions{.lr = 1e-2, .clip = 1.0});
      return std::make_unique<Adafactor>(state / "optim", AdafactorOptions{.lr = 0.05, .clip = 1.0});
    };
    expect_same(train_tiny(run), train_tiny(on(run, kTwo)), kind);
    const Sums sums = sums_of(program_of(run));
    EXPECT_EQ(sums.written, 0) << kind;
    EXPECT_GT(sums.halves, 0) << kind;
  }
}

// p -= lr g / (1 + |the sum of g|), which reads g as a whole, too.
class BySum : public Optimizer {
 public:
  explicit BySum(State& state) : Optimizer(state / "optim", {}) {
    state.add_optimizer(path_, {}, [this](int64_t step) { return scalars(step); });
  }
  void update(const Gradients& gradients, Here at) override {
    const Rates rates = begin(gradients, 1.0, at);
    for (size_t i = 0; i < gradients.values.size(); ++i) {
      const Tensor g = gradients.values[i];
      const Parameter& parameter = gradients.parameters[i];
      assign(parameter, parameter(g) - g * (rates.lr * rates.scale / (abs(sum(g)) + 1.0)));
    }
  }
  std::map<std::string, double> scalars(int64_t) const override { return {{"optim.lr", 1e-2}}; }
};

TEST(KeptGradients, AreWidenedForOtherReaders) {
  TinyRun run = one_micro_batch();
  run.optimizer = [](State& state) { return std::make_unique<BySum>(state); };
  expect_same(train_tiny(run), train_tiny(on(run, kTwo)), "by sum");
  const Sums sums = sums_of(program_of(run));
  EXPECT_GT(sums.written, 20);
  EXPECT_EQ(sums.halves, 0);
}

}  // namespace
}  // namespace lockstep::tests
