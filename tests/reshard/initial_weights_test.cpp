// Initial weights from checkpoints with adapters, below a path and in part, and models below a path; each on
// one rank and on several that split the weights.
#include "checkpoint/initial_weights.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/safetensors.h"
#include "core/base/error.h"
#include "core/models/families.h"
#include "core/nn/layers.h"
#include "distributed/local/local_world.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace checkpoint;

namespace {

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const UserError& error) { return error.what(); }
  return "accepted";
}

struct Net {
  explicit Net(const Scope& at) : up(at / "up", 5, 7), down(at / "down", 7, 3) {}
  Linear up, down;
};

std::vector<float> counted(int64_t n, float from) {
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(from + 0.37F * static_cast<float>(i % 11));
  return out;
}
const std::vector<std::string> kLayers = {"up", "down"};

class InitialWeightsOf : public testing::Test {
 protected:
  // A checkpoint of a tuned net; every matrix has values of its own.
  std::string saved(const std::string& name, bool lora, bool says_scale = true) {
    State state(solo_mesh(), 3);
    const Net net(state.root());
    if (lora) state.lora({2, 3});
    (void)(state / "optim").moment(net.up.weight, "exp_avg");
    float from = 1;
    for (const Spec& spec : state.specs()) {
      const auto values = counted(numel(spec.shape), from += 0.5F);
      state.set(spec.fqn, values.data(), DType::f32, spec.shape);
    }
    state.materialize();
    Json extra = Json::object();
    if (lora && says_scale) extra[kAdapters] = adapters_of(state);
    return save_checkpoint(folder_.path(name), {4, Json::object(), "", extra}, std::as_const(state).arrays(),
                           state.mesh(), 0)
        .path;
  }
  static std::vector<float> stored(const std::string& step, const std::string& fqn) {
    const Array array = read_tensor(step, fqn);
    const auto* data = array.data.as<float>();
    return {data, data + array.local_numel()};
  }
  // W + scale B A, each rounded once from f64, in the order that exports have.
  static std::vector<float> merged(const std::string& step, const std::string& layer) {
    std::vector<float> w = stored(step, layer + ".weight");
    const auto a = stored(step, layer + ".lora_A.weight"), b = stored(step, layer + ".lora_B.weight");
    const size_t in = a.size() / 2, out = b.size() / 2;
    for (size_t o = 0; o < out; ++o)
      for (size_t i = 0; i < in; ++i) {
        double sum = 0;
        for (size_t r = 0; r < 2; ++r) sum += static_cast<double>(b[o * 2 + r]) * a[r * in + i];
        w[o * in + i] = static_cast<float>(w[o * in + i] + 1.5 * sum);
      }
    return w;
  }
  // What the whole tensor is, wherever its parts lie.
  static void expect_values(State& state, const std::string& fqn, const std::vector<float>& want) {
    const Array& array = state.array(fqn);
    for (const Piece& piece : array.pieces)
      for_each_run(piece.global, whole(array.shape), piece.frame(array.local_shape),
                   [&](int64_t from, int64_t to, int64_t count) {
                     for (int64_t i = 0; i < count; ++i)
                       ASSERT_EQ(array.data.as<float>()[to + i], want.at(static_cast<size_t>(from + i)))
                           << fqn;
                   });
  }
  // Runs on meshes of one rank and of several; gives the lines that were told.
  std::vector<std::string> on_meshes(const std::function<std::vector<std::string>(State&)>& run) {
    std::set<std::vector<std::string>> told;
    std::mutex guard;
    for (const Mesh& mesh :
         {Mesh{{1}, {"dp_replicate"}}, Mesh{{3}, {"dp_shard"}}, Mesh{{2}, {"dp_replicate"}}})
      distributed::local_mesh(static_cast<int>(mesh.size()), mesh, [&](LiveMesh& live) {
        State state(live, 9);
        auto lines = run(state);
        std::lock_guard<std::mutex> hold(guard);
        told.insert(lines);
      });
    EXPECT_EQ(told.size(), 1u);
    return told.empty() ? std::vector<std::string>{} : *told.begin();
  }
  ScratchFolder folder_;
};

TEST_F(InitialWeightsOf, AdaptersGoOnWhereTheStateHasThem) {
  const std::string step = saved("tuned", true);
  const auto told = on_meshes([&](State& state) {
    const Net net(state.root());
    state.lora({2, 3});
    const InitialWeights weights({step, true}, state, {}, "the state");
    state.materialize();
    auto lines = weights.load(state);
    for (const auto& layer : kLayers)
      for (const char* name : {".weight", ".lora_A.weight", ".lora_B.weight"})
        expect_values(state, layer + name, stored(step, layer + name));
    return lines;
  });
  EXPECT_EQ(told, std::vector<std::string>{"the adapters of " + step +
                                           ", rank 2 and alpha 3, go on as adapters beside 2 weights"});
}

TEST_F(InitialWeightsOf, AdaptersAreMergedElsewhere) {
  const std::string step = saved("tuned", true);
  struct Case {
    LoraOptions lora;
    std::string fresh;
  };
  for (const Case& one :
       {Case{{0, 1}, ""}, Case{{3, 3}, ", and those of this run, rank 3 and alpha 3, begin anew"},
        Case{{2, 4}, ", and those of this run, rank 2 and alpha 4, begin anew"},
        Case{{2, 3, 0, {"up"}}, ", and those of this run, rank 2 and alpha 3, begin anew"}}) {
    const auto told = on_meshes([&](State& state) {
      const Net net(state.root());
      if (one.lora.rank > 0) state.lora(one.lora);
      const InitialWeights weights({step, true}, state, {}, "the state");
      state.materialize();
      auto lines = weights.load(state);
      for (const auto& layer : kLayers) {
        expect_values(state, layer + ".weight", merged(step, layer));
        expect_values(state, layer + ".bias", stored(step, layer + ".bias"));
      }
      if (one.lora.rank > 0)
        expect_values(state, "up.lora_B.weight", std::vector<float>(static_cast<size_t>(7 * one.lora.rank)));
      return lines;
    });
    EXPECT_EQ(told, std::vector<std::string>{"the adapters of " + step +
                                             ", rank 2 and alpha 3, are merged into 2 weights" + one.fresh});
  }
}

// A policy and its reference, from one run.
TEST_F(InitialWeightsOf, WeightsGoBelowAPath) {
  const std::string step = saved("tuned", true);
  on_meshes([&](State& state) {
    const Net policy(state / "policy"), reference(state / "reference");
    const InitialWeights first({step, true}, state, {.at = "policy"}, "the state"),
        second({step, true}, state, {.at = "reference"}, "the state");
    state.materialize();
    first.load(state);
    second.load(state);
    for (const char* at : {"policy.", "reference."})
      for (const auto& layer : kLayers) expect_values(state, at + layer + ".weight", merged(step, layer));
    return std::vector<std::string>{};
  });
}

// Packed projections that tp splits in groups, of a model below a path: the bits of one rank.
TEST_F(InitialWeightsOf, AdaptersAreMergedWhereTpSplitsTheWeights) {
  const Json sizes = {{"vocab", 16}, {"context", 4}, {"width", 8}, {"depth", 1}, {"heads", 2}};
  State tuned(solo_mesh(), 3);
  models::build(tuned.root(), "gpt", sizes);
  tuned.lora({2, 3});
  float from = 0;
  for (const Spec& spec : tuned.specs()) {
    const auto values = counted(numel(spec.shape), from += 0.25F);
    tuned.set(spec.fqn, values.data(), DType::f32, spec.shape);
  }
  tuned.materialize();
  const std::string step =
      save_checkpoint(folder_.path("gpt"), {1, Json::object(), "", {{kAdapters, adapters_of(tuned)}}},
                      std::as_const(tuned).arrays(), tuned.mesh(), 0)
          .path;
  auto load = [&](LiveMesh& live, const std::function<void(State&)>& look) {
    State state(live, 4);
    state.place_by_default(models::build(state / "net", "gpt", sizes).placements);
    const InitialWeights weights({step, true}, state, {.at = "net"}, "the state");
    state.materialize();
    EXPECT_EQ(weights.load(state).size(), 1u);
    look(state);
  };
  std::map<std::string, std::vector<float>> alone;
  LiveMesh solo = solo_mesh();
  load(solo, [&](State& state) {
    for (const Array* array : state.arrays())
      alone[array->fqn] = {array->data.as<float>(), array->data.as<float>() + array->local_numel()};
  });
  EXPECT_EQ(alone["net.blocks.0.attn.qkv.weight"], merged(step, "blocks.0.attn.qkv"));
  EXPECT_NE(alone["net.blocks.0.attn.qkv.weight"], stored(step, "blocks.0.attn.qkv.weight"));
  for (const Mesh& mesh : {Mesh{{2}, {"tp"}}, Mesh{{2, 2}, {"dp_shard", "tp"}}})
    distributed::local_mesh(static_cast<int>(mesh.size()), mesh, [&](LiveMesh& live) {
      load(live, [&](State& state) {
        for (const auto& [fqn, values] : alone) expect_values(state, fqn, values);
      });
    });
}

TEST_F(InitialWeightsOf, APartIsListed) {
  const std::string step = saved("plain", false);
  const auto told = on_meshes([&](State& state) {
    const Linear up(state / "body" / "up", 5, 7), head(state / "body" / "head", 7, 2);
    const InitialWeights weights({step, true}, state, {"body", true}, "the state");
    state.materialize();
    auto lines = weights.load(state);
    expect_values(state, "body.up.weight", stored(step, "up.weight"));
    return lines;
  });
  EXPECT_EQ(told, (std::vector<std::string>{
                      "2 of the state keep their values, which " + step +
                          " does not have: body.head.weight, body.head.bias",
                      "2 of " + step +
                          " are not read, since the state does not have them: down.weight, down.bias"}));
}

TEST_F(InitialWeightsOf, Refusals) {
  State state(solo_mesh(), 1);
  const Linear up(state / "up", 5, 7), more(state / "more", 2, 2);
  const std::string silent = saved("silent", true, false), plain = saved("plain", false);
  auto said = [&](const std::string& path, bool step, WeightChoice choice = {}) {
    return refusal([&] { InitialWeights({path, step}, state, choice, "the state"); });
  };
  EXPECT_EQ(
      said(silent, true, {"", true}),
      silent +
          " holds adapters and says nowhere what they are scaled by (train.lora.alpha of its config): "
          "resume it with the program that made it, by Checkpoint(...).resume(state), and save it anew, "
          "which writes it down");
  const std::string file = silent + "/rank-0.safetensors";
  EXPECT_EQ(said(file, false),
            file +
                " holds 2 adapters, as up.lora_A.weight, and no file of tensors says what they are scaled "
                "by: name the run or the step folder that they are of, or write weights with them merged by "
                "export-hf");
  const std::string near = "; nearest in " + plain + ": up.";
  EXPECT_EQ(said(plain, true), plain +
                                   " does not fit the state: 2 missing, 0 extra, 0 of another shape or "
                                   "dtype\n  missing: more.weight f32[2,2]" +
                                   near + "weight\n  missing: more.bias f32[2]" + near + "bias");
  EXPECT_EQ(said(plain, true, {"pu", false}),
            "at is \"pu\", and the state has nothing below it; nearest: \"up\"");
  EXPECT_EQ(said(plain, true, {"more", true}),
            plain +
                " has no weight of the state below more, and partial wants "
                "at least one: the first is more.weight there and up.weight "
                "here");
  State other(solo_mesh(), 1);
  const Linear narrow(other / "up", 4, 7);
  EXPECT_EQ(refusal([&] { InitialWeights({plain, true}, other, {"", true}, "the state"); }),
            plain +
                " does not fit the state: 0 missing, 0 extra, 1 of another shape or dtype\n  differs: "
                "up.weight is f32[7,5] in " +
                plain + " and f32[7,4] in the state");
}

// Each rank keeps its part; values that differ between ranks, or do not fit, are refused.
TEST(StateSet, EachRankKeepsItsPart) {
  const std::vector<float> values = counted(35, 2);
  for (int64_t ranks : {1, 2, 3})
    for (const bool before : {false, true})
      distributed::local_mesh(static_cast<int>(ranks), Mesh{{ranks}, {"dp_shard"}}, [&](LiveMesh& live) {
        State state(live, 5);
        const Net net(state.root());
        if (!before) state.materialize();
        state.set("up.weight", values.data(), DType::f32, {7, 5});
        if (before) state.materialize();
        const Array& array = state.array("up.weight");
        for (const Piece& piece : array.pieces)
          for_each_run(piece.global, whole(array.shape), piece.frame(array.local_shape),
                       [&](int64_t from, int64_t to, int64_t count) {
                         for (int64_t i = 0; i < count; ++i)
                           ASSERT_EQ(array.data.as<float>()[to + i], values[static_cast<size_t>(from + i)]);
                       });
      });
}

TEST(StateSet, Refusals) {
  State state(solo_mesh(), 5);
  const Net net(state.root());
  std::vector<float> values = counted(35, 2);
  auto said = [&](const char* fqn, DType dtype, const Shape& shape) {
    const std::string text = refusal([&] { state.set(fqn, values.data(), dtype, shape); });
    return text.substr(text.find(": ") + 2);
  };
  EXPECT_EQ(said("up.weight", DType::f32, {5, 7}),
            "\"up.weight\" is f32[7,5], and what it is set to f32[5,7]; reshape it to its own shape");
  EXPECT_EQ(
      said("up.weight", DType::i32, {7, 5}),
      "\"up.weight\" is f32[7,5], and what it is set to i32[7,5]; convert it to f32, as array.astype() of "
      "NumPy does");
  EXPECT_EQ(refusal([&] { state.set("up.wieght", values.data(), DType::f32, {7, 5}); }),
            "state has no tensor \"up.wieght\" among its 4; did you mean \"up.weight\"?");
  values[3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(said("up.weight", DType::f32, {7, 5}),
            "element 3 of what \"up.weight\" is set to is inf; weights must be finite numbers");
  EXPECT_NE(
      refusal([&] {
        distributed::with_ranks(2, [&](LiveMesh& live) {
          State of(live, 1);
          const Net own(of.root());
          const std::vector<float> mine = counted(35, static_cast<float>(live.rank));
          of.set("up.weight", mine.data(), DType::f32, {7, 5});
        });
      })
          .find("\"up.weight\" is set to other values on rank 1 than on rank 0; give all ranks the same "
                "ones, as by one seed"),
      std::string::npos);
}

// Placements of a family name its tensors from where it stands.
TEST(ModelsBelowAPath, HaveTheirPlacements) {
  LiveMesh live = solo_mesh();
  live.words = Mesh{{2}, {"tp"}};
  const std::map<std::string, std::string> split = {
      {"gpt", "blocks.0.attn.qkv.weight"},
      {"llama", "blocks.0.attn.q.weight"},
      {"qwen", "model.layers.0.self_attn.q_proj.weight"},
      {"bert", "bert.encoder.layer.0.attention.self.query.weight"},
      {"vit", "encoder.layers.encoder_layer_0.self_attention.in_proj_weight"},
      {"t5", "encoder.block.0.layer.0.SelfAttention.q.weight"}};
  for (const auto& [kind, fqn] : split) {
    State state(live, 1);
    for (const char* at : {"policy", "reference"}) {
      const models::Model model = models::build(state / at, kind);
      state.place_by_default(model.placements);
      EXPECT_EQ(model.features == nullptr, kind == "t5") << kind;
    }
    const models::Model whole = models::build(state.root(), kind);
    state.place_by_default(whole.placements);
    for (const std::string at : {"policy.", "reference.", ""})
      EXPECT_EQ(state.layout(at + fqn).on(0).kind, Placement::Kind::shard) << kind << " at " << at;
  }
}

}  // namespace
}  // namespace lockstep
