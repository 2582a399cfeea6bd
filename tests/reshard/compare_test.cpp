// Two checkpoints beside one another: the first difference, how many there are, how large they are.
#include "checkpoint/tools/compare.h"

#include <cmath>
#include <limits>

#include "checkpoint/format/damage.h"
#include "tests/reshard/folder_case.h"
#include "tests/support/fault_storage.h"

namespace lockstep {

using namespace checkpoint;

namespace {

const std::vector<StateSpec> kTwo{
    {"a.weight", DType::f32, {5, 6}}, {"b.count", DType::i64, {3}}, {"c.half", DType::bf16, {4}}};

// Saves on `ranks` ranks, rows split, columns where the mesh dim is tp, after `change` was called on the
// whole tensors.
std::string save_on(const std::string& dir, const Mesh& mesh, int64_t step,
                    const std::function<void(Array&)>& change = {}) {
  std::string path;
  distributed::local_mesh(static_cast<int>(mesh.size()), mesh, [&](LiveMesh& live) {
    auto whole_state = solo_state(kTwo, 7);
    if (change)
      for (Array& array : whole_state) change(array);
    auto state = make_state(kTwo, live.words, live.rank, [&](const StateSpec& spec) {
      Layout l;
      l.set(0, Shard(mesh.dim_names[0] == "tp" && spec.shape.size() > 1 ? 1 : 0));
      return l;
    });
    for (size_t i = 0; i < state.size(); ++i) {
      const size_t size = size_of(state[i].dtype);
      for_each_element(state[i], [&](int64_t local, int64_t global) {
        std::memcpy(state[i].data.data() + local * size, whole_state[i].data.data() + global * size, size);
      });
    }
    SaveInfo info{step, {{"optim", {{"lr", step == 10 ? 0.5 : 0.25}}}, {"name", "x"}}, "cert", nullptr, true};
    auto saved = save_checkpoint(dir, info, readable(state), live, 0);
    if (live.rank == 0) path = saved.path;
  });
  return path;
}
CheckpointDifference compared(const std::string& a, const std::string& b, double tolerance = 0,
                              Storage& storage = file_storage()) {
  return compare_checkpoints(a, read_manifest(a), storage, b, read_manifest(b), storage, tolerance);
}
void put(Array& array, int64_t i, double value) { set_double(array.dtype, array.data.data(), i, value); }

TEST(Compare, EqualStatesOfOtherMeshesAreEqual) {
  ScratchFolder folder;
  const std::string a = save_on(folder.path("a"), {{1}, {"dp_replicate"}}, 10),
                    b = save_on(folder.path("b"), {{3}, {"dp_shard"}}, 10),
                    c = save_on(folder.path("c"), {{4}, {"tp"}}, 10);
  for (const auto& [x, y] :
       std::vector<std::pair<std::string, std::string>>{{a, b}, {b, c}, {c, a}, {b, b}}) {
    const auto found = compared(x, y);
    EXPECT_TRUE(found.equal()) << x << " " << y;
    EXPECT_EQ(found.compared, 3);
    EXPECT_EQ(found.facts.size(), x == y ? 0u : 1u);  // the mesh
  }
}

TEST(Compare, NamesTheFirstDifferenceAndCountsAll) {
  ScratchFolder folder;
  const std::string a = save_on(folder.path("a"), {{3}, {"dp_shard"}}, 10, [](Array& array) {
    if (array.fqn == "a.weight") put(array, 15, 1), put(array, 20, 8), put(array, 29, -2);
    if (array.fqn == "b.count") put(array, 2, 5);
  });
  const std::string b = save_on(folder.path("b"), {{2}, {"tp"}}, 12, [](Array& array) {
    if (array.fqn == "a.weight") put(array, 15, 1.5), put(array, 20, 4), put(array, 29, -2);
    if (array.fqn == "b.count") put(array, 2, -6);
  });
  const auto found = compared(a, b);
  EXPECT_FALSE(found.equal());
  ASSERT_EQ(found.tensors.size(), 2u);
  EXPECT_EQ(found.tensors[0].fqn, "a.weight");
  EXPECT_EQ(found.tensors[0].differing, 2);
  EXPECT_EQ(found.tensors[0].first, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(found.tensors[0].a + " " + found.tensors[0].b, "1 1.5");
  EXPECT_EQ(found.tensors[0].largest, 4);
  EXPECT_EQ(found.tensors[0].largest_relative, 0.5);
  EXPECT_EQ(found.tensors[1].fqn, "b.count");
  EXPECT_EQ(found.tensors[1].first, (std::vector<int64_t>{2}));
  EXPECT_EQ(found.tensors[1].a + " " + found.tensors[1].b, "5 -6");
  std::string facts;
  for (const auto& fact : found.facts) facts += str(fact.name, ": ", fact.a, " | ", fact.b, "\n");
  EXPECT_EQ(facts, "step: 10 | 12\nmesh: [dp_shard=3] | [tp=2]\nconfig.optim.lr: 0.5 | 0.25\n");
}

TEST(Compare, BitsWithoutAToleranceAndValuesWithOne) {
  ScratchFolder folder;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto values = [](double first, double second, double third) {
    return [=](Array& array) {
      if (array.fqn == "a.weight") put(array, 0, first), put(array, 1, second), put(array, 2, third);
    };
  };
  const Mesh one;
  const std::string a = save_on(folder.path("a"), one, 10, values(0.0, nan, 1000)),
                    b = save_on(folder.path("b"), one, 10, values(-0.0, nan, 1001)),
                    c = save_on(folder.path("c"), one, 10, values(0.0, 1, 1000));
  EXPECT_EQ(compared(a, b).tensors.at(0).differing, 2) << "0 and -0 differ, equal bits of NaN do not";
  EXPECT_TRUE(compared(a, b, 2e-3).equal());
  EXPECT_EQ(compared(a, b, 1e-4).tensors.at(0).first, (std::vector<int64_t>{0, 2}));
  const auto other = compared(a, c, 0.5);
  ASSERT_EQ(other.tensors.size(), 1u) << "a number is not near NaN";
  EXPECT_EQ(other.tensors[0].a, "nan");
  EXPECT_TRUE(std::isinf(other.tensors[0].largest));
}

TEST(Compare, TensorsThatOneLacksOrHasOtherwise) {
  ScratchFolder folder;
  save(folder.path("x"), 10, 1);
  const auto found = compared(save_on(folder.path("a"), Mesh{}, 10), folder.path("x/step-10"));
  EXPECT_FALSE(found.equal());
  EXPECT_EQ(found.compared, 0);
  std::string types;
  for (const auto& type : found.types) types += str(type.fqn, ": ", type.a, " | ", type.b, "\n");
  EXPECT_EQ(
      types,
      "a.weight: f32 [5,6] | \nb.count: i64 [3] | \nc.half: bf16 [4] | \nw:  | f32 [6,3]\nb:  | bf16 [3]\n");
}

// A flipped bit is damage, not a difference; and no read is larger than a block.
TEST(Compare, ReadsUnderChecksumsInBlocks) {
  ScratchFolder folder;
  const std::vector<StateSpec> large{{"big", DType::f32, {1500, 1024}}};
  auto save_large = [&](const std::string& dir, int64_t changed) {
    auto state = solo_state(large, 3);
    if (changed >= 0) put(state[0], changed, 0.5), put(state[0], 5, 0.25);
    save_checkpoint(dir, {1, nullptr, "", nullptr}, readable(state), solo_mesh(), 0);
    return dir + "/step-1";
  };
  const std::string a = save_large(folder.path("a"), 4), b = save_large(folder.path("b"), 1500 * 1024 - 1);
  FaultStorage storage;
  const auto found = compared(a, b, 0, storage);
  EXPECT_EQ(found.tensors.at(0).differing, 2);
  EXPECT_EQ(found.tensors.at(0).first, (std::vector<int64_t>{0, 4}));
  EXPECT_LE(storage.largest_read(), 4 << 20);
  flip_byte(b + "/rank-0.safetensors", 1 << 20);
  try {
    compared(a, b);
    ADD_FAILURE() << "no error";
  } catch (const DamagedError& error) {
    EXPECT_NE(
        std::string(error.what()).find("b/step-1/rank-0.safetensors: tensor big, box [0:1500,0:1024], "),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lockstep
