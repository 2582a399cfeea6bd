// Bytes of a step on a device: the parts, the nearest config that fits, and the words of both.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/optim/adamw.h"
#include "launcher/memory/needs.h"

namespace lockstep {

using namespace launcher;

namespace {

LiveMesh paper_mesh(Shape shape, std::vector<std::string> names) {
  LiveMesh mesh = solo_mesh();
  mesh.words = {std::move(shape), std::move(names)};
  return mesh;
}

std::vector<std::string> rows_of(const MemoryNeeds& needs) {
  std::vector<std::string> out;
  for (const auto& part : needs.parts)
    out.push_back(str(part.name, " ", part.bytes, part.bound ? " at most" : ""));
  return out;
}

TEST(MemoryNeeds, PartsOfASmallState) {
  State state(paper_mesh({1}, {"dp_replicate"}), 1);
  state.record({.fqn = "w", .shape = {6, 10}, .init = {}, .trainable = true, .of = "", .at = {}});
  state.record({.fqn = "b", .shape = {7}, .init = {}, .trainable = true, .of = "", .at = {}});
  AdamW adamw(state / "optim", {.lr = 1e-3});
  LibraryBounds bounds{.context = 100, .libraries = 20, .communicator = 1000, .workspace = 10};
  MemoryNeeds needs = device_needs(state, {.arena = 5000, .reduction = 300}, bounds);
  EXPECT_EQ(rows_of(needs),
            (std::vector<std::string>{"weights 268", "moments 536", "activations 5000", "gradients 300",
                                      "library workspaces 10 at most", "driver and libraries 120 at most"}));
  EXPECT_EQ(needs.total(), 268 + 536 + 5000 + 300 + 10 + 120);
  EXPECT_EQ(needs.exact(), 268 + 536 + 5000 + 300);
  MemoryNeeds all =
      device_needs(state, {.arena = 5000, .copies = 134, .batches = 64, .evaluation = 700, .reduction = 300},
                   {0, 0, 0, 0});
  EXPECT_EQ(rows_of(all),
            (std::vector<std::string>{"weights 268", "moments 536", "copies of weights 134",
                                      "activations 5000", "batches 64", "evaluation 700", "gradients 300"}));
  EXPECT_EQ(all.total(), all.exact());
  const MemoryNeeds lent = device_needs(state, {.arena = 5000, .lent = 700}, {0, 0, 0, 0});
  EXPECT_EQ(lent.total(), 268 + 536 + 5000) << "an evaluation in the step's memory takes none of its own";
  EXPECT_NE(memory_table(lent, 0).find("\n  evaluation, within it     700 bytes ("), std::string::npos)
      << memory_table(lent, 0);
}

TEST(MemoryNeeds, MomentsOnTheHostAreNoneOfTheDevices) {
  State state(paper_mesh({1}, {"dp_replicate"}), 1);
  state.record({.fqn = "w", .shape = {6, 10}, .init = {}, .trainable = true, .of = "", .at = {}});
  AdamW adamw(state / "optim", {.lr = 1e-3});
  const StepBytes step{.reduction = 300, .on_host = {"optim.w.exp_avg"}};
  const MemoryNeeds needs = device_needs(state, step, {0, 0, 0, 0});
  EXPECT_EQ(rows_of(needs), (std::vector<std::string>{"weights 240", "moments 240", "gradients 300"}));
  EXPECT_EQ(needs.on_host, 240);
  EXPECT_NE(memory_table(needs, 0).find("\n  moments on the host       240 bytes ("), std::string::npos)
      << memory_table(needs, 0);
  LibraryBounds cpu = host_bounds();
  EXPECT_EQ(device_needs(state, step, cpu).exact(), 240 + 480 + 300) << "there both are one memory";
  EXPECT_EQ(device_needs(state, step, cpu).on_host, 0);
  // Alike activations that wait there.
  const StepBytes waits{.arena = 5000, .away = 700};
  const MemoryNeeds away = device_needs(state, waits, {0, 0, 0, 0});
  EXPECT_EQ(rows_of(away), (std::vector<std::string>{"weights 240", "moments 480", "activations 5000"}));
  EXPECT_EQ(away.away, 700);
  EXPECT_NE(memory_table(away, 0).find("\n  activations on the host   700 bytes ("), std::string::npos)
      << memory_table(away, 0);
  EXPECT_EQ(device_needs(state, waits, cpu).exact(), 240 + 480 + 5000 + 700);
  EXPECT_EQ(device_needs(state, waits, cpu).away, 0);
}

// What one H200 was measured to take beside state, arena and reduction lies within the bounds.
TEST(MemoryNeeds, BoundsStandAboveWhatWasMeasured) {
  const double gib = 0x1p30;
  LibraryBounds bounds;
  for (double measured :
       {27.37 - (24.77 + 0.93 + 1.39), 72.04 - (42.32 + 11.62 + 17.41), 57.72 - (29.84 + 11.10 + 16.65)})
    EXPECT_GT(static_cast<double>(bounds.libraries), 1.2 * measured * gib);
  EXPECT_GT(static_cast<double>(bounds.context), 0.5 * gib);
}

TEST(MemoryNeeds, MomentsAreSharedByTheRanksAndWeightsAreNot) {
  State state(paper_mesh({4}, {"dp_replicate"}), 1);
  state.record({.fqn = "w", .shape = {6, 10}, .init = {}, .trainable = true, .of = "", .at = {}});
  AdamW adamw(state / "optim", {.lr = 1e-3});
  LibraryBounds bounds{.context = 0, .libraries = 0, .communicator = 1000, .workspace = 0};
  EXPECT_EQ(rows_of(device_needs(state, {}, bounds)),
            (std::vector<std::string>{"weights 240", "moments 160",
                                      "communicators (1) 1000 at most"}));  // the fullest has 2 rows of 6
}

TEST(MemoryNeeds, CommunicatorsOfAMesh) {
  EXPECT_EQ(communicators({{1}, {"dp_replicate"}}), 0);
  EXPECT_EQ(communicators({{4}, {"dp_replicate"}}), 1);
  EXPECT_EQ(communicators({{4, 1}, {"dp_replicate", "tp"}}), 1);
  EXPECT_EQ(communicators({{4, 2}, {"dp_replicate", "tp"}}), 2);
  EXPECT_EQ(communicators({{2, 2}, {"dp_replicate", "dp_shard"}}), 3);
  EXPECT_EQ(communicators({{2, 2, 2}, {"dp_replicate", "dp_shard", "tp"}}), 4);
  EXPECT_EQ(communicators({{8}, {"dp_replicate"}}, 4), 3);  // and inside hosts, and across them
  EXPECT_EQ(communicators({{2, 4}, {"dp_replicate", "dp_shard"}}, 4), 3);  // which are the dims
  EXPECT_EQ(communicators({{2, 4}, {"dp_replicate", "dp_shard"}}, 2), 5);
}

Mesh data_mesh(int64_t ranks) { return {{ranks}, {"dp_replicate"}}; }
std::vector<Mesh> doubled(int64_t ranks) {
  return {data_mesh(ranks), data_mesh(2 * ranks), data_mesh(4 * ranks), data_mesh(8 * ranks)};
}
// 10 per sequence of the micro-batch, and a state of 100 shared by the ranks.
std::optional<int64_t> bytes_of(int64_t micro, const Mesh& mesh) { return 10 * micro + 100 / mesh.size(); }

TEST(NearestFit, LargestDivisorOnTheSameRanksFirst) {
  EXPECT_EQ(nearest_fit(64, doubled(1), 420, bytes_of), (Fit{32, 1, 420}));
  EXPECT_EQ(nearest_fit(64, doubled(1), 419, bytes_of), (Fit{16, 1, 260}));
  EXPECT_EQ(nearest_fit(12, doubled(1), 170, bytes_of), (Fit{6, 1, 160}));
  EXPECT_EQ(nearest_fit(7, doubled(1), 169, bytes_of), (Fit{1, 1, 110}));
  EXPECT_EQ(nearest_fit(64, doubled(1), 110, bytes_of), (Fit{1, 1, 110}));
}

TEST(NearestFit, MoreRanksWhereNoDivisorFits) {
  EXPECT_EQ(nearest_fit(1, doubled(1), 109, bytes_of), (Fit{1, 2, 60}));
  EXPECT_EQ(nearest_fit(8, doubled(1), 109, bytes_of), (Fit{4, 2, 90}));
  EXPECT_EQ(nearest_fit(2, doubled(2), 50, bytes_of),
            (Fit{2, 4, 45}));  // the micro-batch itself, on more ranks
  EXPECT_EQ(nearest_fit(1, doubled(1), 22, bytes_of), (Fit{1, 8, 22}));
  EXPECT_EQ(nearest_fit(1, doubled(1), 21, bytes_of), std::nullopt);
}

TEST(NearestFit, SkipsWhatCannotBe) {
  int asked = 0;
  auto only_odd_ranks = [&](int64_t micro, const Mesh& mesh) -> std::optional<int64_t> {
    ++asked;
    if (mesh.size() % 2 == 0) return {};
    return bytes_of(micro, mesh);
  };
  EXPECT_EQ(nearest_fit(64, doubled(1), 50, only_odd_ranks), std::nullopt);
  EXPECT_EQ(asked, 4) << "the smallest is asked first, and nothing else where it does not fit";
}

std::vector<std::string> words_of(const std::vector<Mesh>& meshes) {
  std::vector<std::string> out;
  for (const Mesh& mesh : meshes) out.push_back(text(mesh));
  return out;
}

TEST(NearestFit, MeshesNearby) {
  EXPECT_EQ(words_of(nearby_meshes(data_mesh(4))),
            (std::vector<std::string>{
                "[dp_replicate=4]", "[dp_replicate=2, dp_shard=2]", "[dp_replicate=1, dp_shard=4]",
                "[dp_replicate=8]", "[dp_replicate=1, dp_shard=8]", "[dp_replicate=16]",
                "[dp_replicate=1, dp_shard=16]", "[dp_replicate=32]", "[dp_replicate=1, dp_shard=32]"}));
  EXPECT_EQ(words_of(nearby_meshes({{3, 2, 8}, {"dp_replicate", "dp_shard", "tp"}})),
            (std::vector<std::string>{
                "[dp_replicate=3, dp_shard=2, tp=8]", "[dp_replicate=1, dp_shard=6, tp=8]",
                "[dp_replicate=6, dp_shard=2, tp=8]", "[dp_replicate=1, dp_shard=12, tp=8]",
                "[dp_replicate=12, dp_shard=2, tp=8]", "[dp_replicate=1, dp_shard=24, tp=8]",
                "[dp_replicate=24, dp_shard=2, tp=8]", "[dp_replicate=1, dp_shard=48, tp=8]"}));
  EXPECT_EQ(words_of(nearby_meshes({{2}, {"dp_shard"}})),
            (std::vector<std::string>{"[dp_shard=2]", "[dp_shard=4]", "[dp_shard=8]", "[dp_shard=16]"}));
}

// The same ranks with the weights split: 100 of weights shared by dp_shard alone.
TEST(NearestFit, NamesAMeshOfOtherDims) {
  auto split = [](int64_t micro, const Mesh& mesh) -> std::optional<int64_t> {
    return 10 * micro + 100 / mesh.size("dp_shard");
  };
  EXPECT_EQ(nearest_fit(1, nearby_meshes(data_mesh(4)), 60, split),
            (Fit{1, 4, 60, "[dp_replicate=2, dp_shard=2]"}));
  EXPECT_EQ(nearest_fit(1, nearby_meshes(data_mesh(4)), 25, split),
            (Fit{1, 8, 22, "[dp_replicate=1, dp_shard=8]"}));
}

TEST(MemoryTable, EveryPartTheSumAndTheDevice) {
  MemoryNeeds needs{{{"driver and libraries", 1024, true}, {"weights", 2048}}};  // the largest goes first
  EXPECT_EQ(memory_table(needs, 0),
            "  weights                   2048 bytes (2.00 KiB)\n"
            "  driver and libraries      at most 1024 bytes (1.00 KiB)\n"
            "  together                  at most 3072 bytes (3.00 KiB)\n");
  EXPECT_EQ(memory_table(needs, 4096).substr(memory_table(needs, 0).size()),
            "  the device has            4096 bytes (4.00 KiB), 75.0 % of it is needed\n");
  EXPECT_EQ(memory_table({{{"weights", 2048}}}, 4096, "free there"),
            "  weights                   2048 bytes (2.00 KiB)\n"
            "  together                  2048 bytes (2.00 KiB)\n"
            "  free there                4096 bytes (4.00 KiB), 50.0 % of it is needed\n");
}

TEST(MemoryTable, RefusalNamesTheNearestConfigThatFits) {
  MemoryNeeds needs{{{"weights", 1 << 20}, {"activations", 3 << 20}}};
  const std::string start =
      "big does not fit on 2 ranks: the fullest one needs 4.00 MiB of the 2.00 MiB of its device, most of it "
      "for "
      "activations (3.00 MiB); ";
  EXPECT_EQ(does_not_fit("big", 8, 2, needs, 2 << 20, Fit{4, 2, 1 << 20}),
            start + "batch.micro 4 fits (1.00 MiB)");
  EXPECT_EQ(does_not_fit("big", 8, 2, needs, 2 << 20, Fit{4, 4, 1 << 20}),
            start + "batch.micro 4 on 4 ranks fits (1.00 MiB)");
  EXPECT_EQ(does_not_fit("big", 8, 2, needs, 2 << 20, Fit{8, 4, 1 << 20}),
            start + "4 ranks with batch.micro 8 fit (1.00 MiB)");
  EXPECT_EQ(does_not_fit("big", 8, 2, needs, 2 << 20, Fit{4, 2, 1 << 20, "[dp_shard=2]"}),
            start + "batch.micro 4 on 2 ranks, mesh [dp_shard=2], fits (1.00 MiB)");
  EXPECT_EQ(does_not_fit("big", 8, 2, needs, 2 << 20, std::nullopt),
            start.substr(0, start.size() - 2) +
                "; no smaller batch.micro fits, on up to 8 times the ranks either: choose a smaller model or "
                "a larger device");
}

TEST(MemoryWords, UnitsAreReadAndAnythingElseIsRefused) {
  EXPECT_EQ(parse_memory("141GB"), 141000000000);
  EXPECT_EQ(parse_memory("80GiB"), int64_t{80} << 30);
  EXPECT_EQ(parse_memory("1.5 TB"), 1500000000000);
  EXPECT_EQ(parse_memory("123456"), 123456);
  EXPECT_EQ(parse_memory("1B"), 1);
  for (const char* bad : {"", "GB", "lots", "-1GB", "0", "0.5", "141 gigabytes", "1e30", "nan", "9e9TB"}) {
    try {
      parse_memory(bad);
      ADD_FAILURE() << bad << " was accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()),
                str("memory is \"", bad,
                    "\"; give bytes, or a number with a unit (MB, GB, TB, MiB, GiB, TiB), as in "
                    "141GB or 80GiB"));
    }
  }
}

}  // namespace
}  // namespace lockstep
