// Steps of one state that run in turns: an evaluation, and a step of another shape, lie in the memory of a
// training step, and neither changes a bit of what the other computes.
#include "compiler/program/build/lent_memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/compile/compile.h"
#include "compiler/program/show/folds.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/models/gpt.h"
#include "core/nn/layers.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"
#include "launcher/api/memory_check.h"

namespace lockstep {
namespace {

using namespace compiler;

constexpr int64_t kTokens = 8, kVocab = 24;

std::vector<BatchField> fields(int64_t micro) {
  return {{"ids", DType::i32, {micro, kTokens}}, {"targets", DType::i32, {micro, kTokens}}};
}
StepInput input(int64_t step) {
  return {step, [step](int64_t first, int64_t count, const std::vector<void*>& to) {
            for (int64_t i = 0; i < count * kTokens; ++i)
              for (int field : {0, 1})
                static_cast<int32_t*>(to[field])[i] =
                    static_cast<int32_t>(philox::bits(1, 2, static_cast<uint64_t>(step),
                                                      static_cast<uint64_t>(first * kTokens + i + field)) %
                                         kVocab);
          }};
}

struct Precision {
  const char* name;
  DType compute = DType::f32;
  bool float8 = false, delayed = false;
};
const std::vector<Precision> kPrecisions = {{"fp32"},
                                            {"bf16", DType::bf16},
                                            {"float8", DType::bf16, true},
                                            {"float8 delayed", DType::bf16, true, true}};

struct Result {
  std::vector<float> losses = {}, evaluated = {};
  std::vector<uint64_t> sums = {};  // of micro-batches computed again
  std::string hash = {}, certificate = {};
  int64_t lent = 0, held = 0;  // of the evaluation, bytes
  bool same_bits(const Result& than) const {
    return losses == than.losses && evaluated == than.evaluated && sums == than.sums && hash == than.hash &&
           certificate == than.certificate;
  }
};

// Three steps with evaluations before and behind each, and smaller batches, which are training steps, too.
Result train(const Mesh& words, const Precision& precision, bool lend) {
  Result out;
  distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    state.compute_dtype(precision.compute);
    const models::Gpt gpt(state.root(),
                          {.vocab = kVocab, .context = kTokens, .width = 32, .depth = 2, .heads = 2});
    if (precision.float8)
      state.float8({.recipe = precision.delayed ? Float8Recipe::delayed : Float8Recipe::tensorwise});
    AdamW adamw(state / "optim", {.lr = 1e-2, .clip = 1.0});
    const StepFunction trains = [&](const std::vector<Tensor>& batch) {
      Loss loss = cross_entropy(gpt(batch[0]), batch[1]);
      adamw.update(grad(loss, state.parameters()));
      return loss;
    };
    const StepFunction measures = [&](const std::vector<Tensor>& batch) {
      Evaluation evaluation;
      return cross_entropy(gpt(batch[0]), batch[1]);
    };
    CompileOptions how;
    how.precision = precision.float8 ? "float8" : precision.compute == DType::bf16 ? "bf16" : "fp32";
    Step step = compile(state, fields(4), {16, 4}, trains, how);
    Step evaluation = compile(state, fields(4), {8, 4}, measures, how, lend ? &step : nullptr);
    Step smaller = compile(state, fields(2), {8, 2}, trains, how, lend ? &step : nullptr);
    state.materialize();
    Result mine;
    for (int64_t i = 1; i <= 6; i += 2) {
      mine.evaluated.push_back(evaluation(input(100)));
      mine.evaluated.push_back(evaluation(input(101)));
      mine.losses.push_back(step(input(i)));
      mine.evaluated.push_back(evaluation(input(100)));
      mine.losses.push_back(smaller(input(i + 1)));
      for (Step* one : {&step, &smaller})
        for (uint64_t sum : one->recompute(input(i), 0)) mine.sums.push_back(sum);
      // What the smaller step has rounded stays its own: nobody else writes the state in between.
      mine.evaluated.push_back(evaluation(input(100)));
      mine.losses.push_back(smaller(input(i + 1)));
    }
    mine.hash = state_hash(std::as_const(state).arrays(), mesh);
    mine.certificate = step.certificate() + evaluation.certificate() + smaller.certificate();
    mine.lent = lent_bytes(evaluation.program(), step.program());
    mine.held = held_bytes(evaluation.program()).total();
    if (mesh.world->rank() == 0) out = mine;
  });
  return out;
}

TEST(LentMemory, NeitherStepChangesABitOfTheOther) {
  for (const Precision& precision : kPrecisions)
    for (const Mesh& words : {Mesh{{1}, {"dp_replicate"}}, Mesh{{2}, {"dp_shard"}}}) {
      const Result apart = train(words, precision, false), lent = train(words, precision, true);
      EXPECT_TRUE(lent.same_bits(apart)) << precision.name << " on " << text(words);
      EXPECT_TRUE(std::isfinite(lent.evaluated.back())) << precision.name;
    }
}

TEST(LentMemory, AnEvaluationLiesInTheTrainingStepsMemoryWhole) {
  for (const Precision& precision : kPrecisions) {
    const Result one = train({{1}, {"dp_replicate"}}, precision, true);
    EXPECT_EQ(one.lent, one.held) << precision.name;
    EXPECT_GT(one.lent, 0) << precision.name;
  }
}

// A loop of one's own: asked for is what a step takes beyond the memory that is lent to it.
TEST(LentMemory, IsNotAskedForTwice) {
  const char* memory = "LOCKSTEP_MEMORY";
  State state(solo_mesh(), 3);
  const models::Gpt gpt(state.root(),
                        {.vocab = kVocab, .context = kTokens, .width = 32, .depth = 2, .heads = 2});
  AdamW adamw(state / "optim", {.lr = 1e-2});
  Step step = compile(state, fields(4), {16, 4},
                      [&](const std::vector<Tensor>& batch) {
                        Loss loss = cross_entropy(gpt(batch[0]), batch[1]);
                        adamw.update(grad(loss, state.parameters()));
                        return loss;
                      },
                      {});
  const auto refused = [&](const char* room, const Step* lender) -> std::string {
    setenv(memory, room, 1);
    try {
      compile(
          state, fields(4), {8, 4},
          [&](const std::vector<Tensor>& batch) {
            Evaluation evaluation;
            return cross_entropy(gpt(batch[0]), batch[1]);
          },
          {}, lender);
    } catch (const UserError& error) { return error.what(); }
    return "";
  };
  set_plan_observer(MemoryCheck(launcher::WorkerPlace{}, cpu_target()));
  EXPECT_EQ(refused("1KiB", &step), "");
  const std::string alone = refused("1KiB", nullptr), lent = refused("100", &step);
  EXPECT_NE(alone.find("most of it for activations ("), std::string::npos) << alone;
  EXPECT_NE(
      lent.find(
          "the program does not fit on this host: its rank needs 512 B, most of it for batches (512 B)"),
      std::string::npos)
      << lent;
  set_plan_observer({});
  unsetenv(memory);
}

Region arena(const std::string& name, int64_t bytes) { return {Region::Kind::arena, name, bytes}; }

TEST(LentMemory, TheLargestComesFirstAndWhatHasNoRoomHasItsOwn) {
  StepProgram lender, guest;
  lender.regions = {{Region::Kind::state, "weight", 4096}, arena("seed", 300), arena("body", 2000)};
  Region away = arena("body on the host", 4096);
  away.on_host = true;
  lender.regions.push_back(away);
  guest.regions = {{Region::Kind::value, "norm", 8},
                   arena("body", 1500),
                   arena("seed", 257),
                   arena("count", 256),
                   {Region::Kind::value, "rounded", 400},
                   {Region::Kind::input, "ids", 64},
                   {Region::Kind::result, "votes", 16}};
  const std::vector<Span> places = lent_places(guest, lender);
  // 1500 takes 1536 of the body's 2000; 400 the rest of it; 257 the seed's, rounded up to 512; no place is
  // left.
  const std::vector<Span> right = {{}, {2, 0, 1500}, {1, 0, 257}, {}, {2, 1536, 400}, {}, {}};
  EXPECT_EQ(places, right);
  EXPECT_EQ(lent_bytes(guest, lender), 1500 + 257 + 400);
}

TEST(LentMemory, AStepThatWritesStateKeepsItsValues) {
  StepProgram lender, guest;
  lender.regions = {arena("body", 4096)};
  guest.regions = {arena("body", 1000),
                   {Region::Kind::value, "rounded", 500},
                   {Region::Kind::partial, "sums", 500},
                   {Region::Kind::state, "weight", 64}};
  EXPECT_EQ(lent_bytes(guest, lender), 2000);
  guest.updated.push_back({});  // none of its rows is this rank's
  EXPECT_EQ(lent_bytes(guest, lender), 1000);
}

}  // namespace
}  // namespace lockstep
