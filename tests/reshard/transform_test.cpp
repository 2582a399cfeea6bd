// Checkpoints made of checkpoints: resharded ones are what the ranks would have written, to the byte; means
// are of the weights alone.
#include "checkpoint/tools/transform.h"

#include "checkpoint/format/damage.h"
#include "checkpoint/tools/compare.h"
#include "tests/reshard/folder_case.h"
#include "tests/support/fault_storage.h"

namespace lockstep {

using namespace checkpoint;

namespace {

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const UserError& error) { return error.what(); }
  return "no error";
}

Layout layout_on(const Mesh& mesh, const Shape& shape, unsigned seed) {
  std::mt19937 random(seed + static_cast<unsigned>(shape.size() * 7 + static_cast<size_t>(numel(shape))));
  return random_layout(shape, mesh, random);
}
std::string save_on(const std::string& dir, const Mesh& mesh, unsigned seed, uint64_t salt = 7) {
  std::string path;
  distributed::local_mesh(static_cast<int>(mesh.size()), mesh, [&](LiveMesh& live) {
    auto state = make_state(awkward_specs(), mesh, live.rank,
                            [&](const StateSpec& spec) { return layout_on(mesh, spec.shape, seed); });
    for (auto& array : state) fill(array, salt);
    auto saved =
        save_checkpoint(dir, {30, {{"width", 64}}, "cert", {{"best", 1.5}}}, readable(state), live, 0);
    if (live.rank == 0) path = saved.path;
  });
  return path;
}

TEST(Reshard, WritesWhatTheRanksWouldHaveWritten) {
  const std::vector<Mesh> meshes{{{1}, {"dp_replicate"}},
                                 {{2}, {"dp_shard"}},
                                 {{3}, {"tp"}},
                                 {{7}, {"dp_shard"}},
                                 {{2, 2}, {"dp_shard", "tp"}}};
  for (unsigned a = 0; a < meshes.size(); ++a)
    for (unsigned b = 0; b < meshes.size(); ++b) {
      ScratchFolder folder;
      const std::string source = save_on(folder.path("source"), meshes[a], a);
      const std::string real = save_on(folder.path("real"), meshes[b], 10 + b);
      const WrittenCopy made = reshard_checkpoint(
          source, folder.path("made"), meshes[b],
          [&](const TensorRecord& tensor) { return layout_on(meshes[b], tensor.shape, 10 + b); });
      EXPECT_EQ(made.path, folder.path("made") + "/step-30");
      EXPECT_EQ(names(made.path), names(real));
      for (const auto& name : names(real))
        EXPECT_EQ(text_of(made.path + "/" + name), text_of(real + "/" + name))
            << text(meshes[a]) << " to " << text(meshes[b]) << ": " << name;
      EXPECT_EQ(verify_checkpoint(made.path), std::vector<std::string>{});
      EXPECT_EQ(text_of(folder.path("made") + "/latest"), "step-30\n");
    }
}

TEST(Reshard, ByRowsForAModelThatIsNotKnown) {
  ScratchFolder folder;
  const std::string source = save_on(folder.path("source"), {{3}, {"tp"}}, 1);
  const Mesh four{{4}, {"dp_shard"}};
  const auto made = reshard_checkpoint(source, folder.path("made"), four, [&](const TensorRecord& tensor) {
    return layout_by_rows(tensor, four);
  });
  EXPECT_EQ(made.files, 4);
  EXPECT_EQ(made.state_hash, read_manifest(source).state_hash);
  EXPECT_EQ(read_manifest(made.path).find("blocks.0.attn.qkv.weight")->chunks.size(), 4u);
}

TEST(Reshard, RefusesWhatIsThereAndWhatIsDamaged) {
  ScratchFolder folder;
  const std::string source = save_on(folder.path("source"), {{2}, {"dp_shard"}}, 1);
  auto reshard = [&] {
    reshard_checkpoint(source, folder.path("out"), Mesh{}, [](const TensorRecord&) { return Layout{}; });
  };
  reshard();
  EXPECT_EQ(error_of(reshard),
            folder.path("out") + "/step-30 is there already, and is left as it is; name another OUT");
  fs::remove_all(folder.path("out"));
  flip_byte(source + "/rank-0.safetensors",
            static_cast<int64_t>(fs::file_size(source + "/rank-0.safetensors")) - 1);
  const std::string damaged = error_of(reshard);
  EXPECT_NE(damaged.find(source + " is not whole: " + source + "/rank-0.safetensors: tensor "),
            std::string::npos)
      << damaged;
  EXPECT_EQ(list_checkpoints(folder.path("out")).size(), 0u) << "nothing is left";
  EXPECT_FALSE(fs::exists(folder.path("out/step-30.tmp")));
}

// A crash at any storage operation leaves a whole checkpoint or none.
TEST(Reshard, AFailureAtEveryOperationLeavesNothingHalf) {
  ScratchFolder folder;
  const std::string source = save_on(folder.path("source"), {{2}, {"dp_shard"}}, 1);
  for (int64_t at = 0;; ++at) {
    ScratchFolder out;
    FaultStorage storage;
    storage.fail_at = at;
    const Mesh two{{2}, {"dp_shard"}};
    const std::string said = error_of([&] {
      reshard_checkpoint(
          source, out.path("ckpt"), two, [&](const TensorRecord& t) { return layout_by_rows(t, two); },
          file_storage(), storage);
    });
    for (const auto& one : list_checkpoints(out.path("ckpt")))
      EXPECT_EQ(verify_checkpoint(one.path), std::vector<std::string>{}) << "operation " << at;
    if (at >= storage.operations()) break;
    EXPECT_NE(said, "no error") << "operation " << at;
  }
}

const std::vector<StateSpec> kModel{{"head.weight", DType::f32, {7, 3}},
                                    {"norm.count", DType::i64, {2}},
                                    {"optim.head.weight.exp_avg", DType::f32, {7, 3}},
                                    {"optim.steps", DType::f32, {}}};
std::string save_model(const std::string& dir, double value, int64_t step,
                       const std::vector<StateSpec>& specs = kModel) {
  auto state = solo_state(specs, 1);
  for (auto& array : state)
    for (int64_t i = 0; i < array.local_numel(); ++i)
      set_double(array.dtype, array.data.data(), i, value + static_cast<double>(i));
  return save_checkpoint(dir, {step, {{"w", 1}}, "c", nullptr, true}, readable(state), solo_mesh(), 0).path;
}

TEST(Average, IsTheMeanOfWeightsInF64) {
  ScratchFolder folder;
  // In f32 1e8 + 1 - 1e8 is 0.
  const std::vector<std::string> sources{save_model(folder.path("a"), 1e8, 10),
                                         save_model(folder.path("b"), 1, 20),
                                         save_model(folder.path("c"), -1e8, 30)};
  const Averaged made = average_checkpoints(sources, folder.path("out"));
  EXPECT_EQ(made.weights, 1);
  EXPECT_EQ(made.as_last, (std::vector<std::string>{"norm.count"}));
  EXPECT_EQ(made.left_out, (std::vector<std::string>{"optim.head.weight.exp_avg", "optim.steps"}));
  EXPECT_EQ(made.written.path, folder.path("out") + "/step-30");
  EXPECT_EQ(verify_checkpoint(made.written.path), std::vector<std::string>{});
  const Array weight = read_tensor(made.written.path, "head.weight");
  for (int64_t i = 0; i < 21; ++i) {
    double sum = 0;
    for (double value : {1e8, 1.0, -1e8})
      sum += static_cast<double>(static_cast<float>(value + static_cast<double>(i)));
    EXPECT_EQ(get_double(DType::f32, weight.data.data(), i),
              static_cast<double>(static_cast<float>(sum / 3)));
  }
  const Array count = read_tensor(made.written.path, "norm.count");
  EXPECT_EQ(get_int(DType::i64, count.data.data(), 1), -99999999);
  const Manifest manifest = read_manifest(made.written.path);
  EXPECT_EQ(manifest.tensors.size(), 2u);
  EXPECT_EQ(manifest.extra["average_of"].get<std::vector<std::string>>(), sources);
}

// A mean of matrices means something where all are scaled alike; their scale is kept.
TEST(Average, AdaptersKeepTheirScale) {
  ScratchFolder folder;
  const std::vector<StateSpec> specs{{"up.weight", DType::f32, {7, 3}},
                                     {"up.lora_A.weight", DType::f32, {2, 3}},
                                     {"up.lora_B.weight", DType::f32, {7, 2}}};
  auto tuned = [&](const std::string& name, const Json& config, const Json& extra) {
    auto state = solo_state(specs, 1);
    return save_checkpoint(folder.path(name), {1, config, "c", extra, true}, readable(state), solo_mesh(), 0)
        .path;
  };
  const Json scaled = {{"adapters", {{"rank", 2}, {"scale", 1.5}}}};
  const std::string a = tuned("a", Json::object(), scaled), b = tuned("b", Json::object(), scaled),
                    c = tuned("c", {{"train", {{"lora", {{"alpha", 4.0}}}}}}, nullptr),
                    none = tuned("none", Json::object(), nullptr);
  EXPECT_EQ(read_manifest(average_checkpoints({a, b}, folder.path("out")).written.path).extra["adapters"],
            scaled["adapters"]);
  EXPECT_EQ(error_of([&] { average_checkpoints({a, c}, folder.path("out2")); }),
            "the adapters of " + a + " have alpha 3 and those of " + c +
                " 4; average checkpoints of one train.lora.alpha");
  EXPECT_NE(error_of([&] {
              average_checkpoints({a, none}, folder.path("out2"));
            }).find(none + " holds adapters and says nowhere what they are scaled by"),
            std::string::npos);
}

TEST(Average, Refusals) {
  ScratchFolder folder;
  const std::string a = save_model(folder.path("a"), 1, 10);
  auto said = [&](const std::vector<std::string>& sources) {
    return error_of([&] { average_checkpoints(sources, folder.path("out")); });
  };
  EXPECT_EQ(said({a}), "average takes two checkpoints or more, and 1 is named");
  const std::string wide = save_model(folder.path("wide"), 1, 10,
                                      {{"head.weight", DType::f32, {7, 4}}, {"norm.count", DType::i64, {2}}});
  EXPECT_EQ(said({wide, a}), str("head.weight is f32[7,3] in ", a, " and f32[7,4] in ", wide,
                                 "; average checkpoints of one model"));
  const std::string more = save_model(folder.path("more"), 1, 10,
                                      {{"head.weight", DType::f32, {7, 3}},
                                       {"norm.count", DType::i64, {2}},
                                       {"tail.weight", DType::f32, {2}}});
  EXPECT_EQ(said({more, a}), str(more, " has tail.weight, f32[2], and ", a,
                                 " has no such tensor; average checkpoints of one model"));
  EXPECT_EQ(said({a, more}), str(more, " has tail.weight, f32[2], and ", a,
                                 " has no such tensor; average checkpoints of one model"));
  const std::string infinite = save_model(folder.path("inf"), 1e300, 10);
  const std::string bad = said({a, infinite});
  EXPECT_NE(bad.find("the mean of head.weight is inf at an element of [0:7,0:3]"), std::string::npos) << bad;
  EXPECT_FALSE(fs::exists(folder.path("out/step-10")));
}

}  // namespace
}  // namespace lockstep
