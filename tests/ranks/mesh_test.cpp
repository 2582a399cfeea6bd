// The live mesh over threads: which ranks meet in which group, what is shared, slices, and worlds whose words
// differ.
#include <gtest/gtest.h>

#include <set>

#include "core/base/error.h"
#include "distributed/local/local_world.h"
#include "distributed/mesh/device_mesh.h"
#include "tests/ranks/expect_error.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {
// The world ranks of a group in its order, found by talking.
std::vector<int64_t> members(Group& group, int64_t world_rank) {
  std::vector<int64_t> out(group.size());
  all_gather(group, {&world_rank, out.data(), std::vector<int64_t>(group.size(), 1), DType::i64}, "members");
  return out;
}
using Ranks = std::vector<int64_t>;
}  // namespace

TEST(DeviceMesh, GroupsFollowTheCoordinates) {
  for (const Mesh& words :
       {Mesh{{2, 3}, {"dp_replicate", "tp"}}, Mesh{{2, 2, 2}, {"dp_replicate", "dp_shard", "tp"}},
        Mesh{{1, 3}, {"dp_shard", "tp"}}, Mesh{{7}, {"dp_shard"}}, Mesh{{1}, {"tp"}},
        Mesh{{3, 1, 2}, {"dp_shard", "cp", "tp"}}, Mesh{{2, 2, 2}, {"dp_replicate", "tp", "dp_shard"}}})
    local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
      ASSERT_EQ(mesh.words, words);
      EXPECT_EQ(mesh.world->size(), words.size());
      EXPECT_EQ(mesh.world->rank(), mesh.rank);
      auto at = mesh.coordinate();
      for (int d = 0; d < words.ndim(); ++d) {
        EXPECT_EQ(mesh.groups[d]->rank(), at[d]);
        EXPECT_EQ(members(*mesh.groups[d], mesh.rank), words.ranks_along(d, mesh.rank)) << text(words);
      }
      EXPECT_EQ(mesh.data->size(), words.data_size());
      EXPECT_EQ(mesh.data->rank(), words.data_rank(mesh.rank));
      auto data = members(*mesh.data, mesh.rank);
      for (size_t i = 0; i < data.size(); ++i) EXPECT_EQ(words.data_rank(data[i]), static_cast<int64_t>(i));
    });
}

TEST(DeviceMesh, IdenticalGroupsAreSharedAndSizeOneCostsNone) {
  local_mesh(4, Mesh{{1, 4, 1}, {"pp", "dp_shard", "tp"}}, [](LiveMesh& mesh) {
    EXPECT_EQ(mesh.groups[1], mesh.world);
    EXPECT_EQ(mesh.data, mesh.world);
    EXPECT_EQ(mesh.groups[0]->size(), 1);
    EXPECT_EQ(mesh.group("tp").size(), 1);
    EXPECT_EQ(mesh.group("tp").name(), "tp");
  });
  local_mesh(6, Mesh{{3, 2}, {"dp_shard", "tp"}}, [](LiveMesh& mesh) {
    EXPECT_EQ(mesh.data, mesh.groups[0]);  // one data dim: the data group is its group
    EXPECT_NE(mesh.groups[1], mesh.world);
    EXPECT_EQ(mesh.groups[1]->name(), "tp");
  });
  local_mesh(4, Mesh{{2, 2}, {"dp_replicate", "dp_shard"}},
             [](LiveMesh& mesh) { EXPECT_EQ(mesh.data, mesh.world); });
}

TEST(DeviceMesh, DataRanksOfAHost) {
  const Mesh data{{8}, {"dp_replicate"}}, hsdp{{2, 4}, {"dp_replicate", "dp_shard"}},
      inner{{4, 2}, {"dp_shard", "tp"}}, outer{{2, 4}, {"tp", "dp_shard"}};
  EXPECT_EQ(data_ranks_per_node(data, 4), 4);
  EXPECT_EQ(data_ranks_per_node(data, 2), 2);
  EXPECT_EQ(data_ranks_per_node(hsdp, 2), 2);
  for (int64_t none : {0, 1, 3, 5, 8, 16}) EXPECT_EQ(data_ranks_per_node(data, none), 0) << none;
  EXPECT_EQ(data_ranks_per_node(inner, 4), 2);  // two tp pairs a host
  EXPECT_EQ(data_ranks_per_node(inner, 2), 0);  // one data rank a host
  EXPECT_EQ(data_ranks_per_node(outer, 2), 2);
  EXPECT_EQ(data_ranks_per_node(outer, 4), 0);  // a data group is on one host
  EXPECT_EQ(data_ranks_per_node(Mesh{{3, 2}, {"tp", "dp_shard"}}, 3), 0);
  EXPECT_EQ(data_ranks_per_node(Mesh{{6}, {"dp_shard"}}, 4), 0);
  EXPECT_EQ(data_ranks_per_node(Mesh{{2, 2, 2}, {"dp_replicate", "tp", "dp_shard"}}, 4), 2);
}

TEST(DeviceMesh, GroupsInsideAndAcrossHosts) {
  with_world(8, [](std::shared_ptr<World> world) {
    LiveMesh mesh = live_mesh(world, Mesh{{4, 2}, {"dp_shard", "tp"}});
    join_nodes(mesh, *world, 4, 2);
    ASSERT_TRUE(mesh.inside && mesh.across);
    const NodeRanks ranks = node_ranks(mesh.words, mesh.rank, 2);
    EXPECT_EQ(members(*mesh.inside, mesh.rank), ranks.inside);
    EXPECT_EQ(members(*mesh.across, mesh.rank), ranks.across);
    const int64_t tp = mesh.rank % 2, data = mesh.rank / 2, host = mesh.rank / 4;
    EXPECT_EQ(members(*mesh.inside, mesh.rank), (Ranks{host * 4 + tp, host * 4 + 2 + tp}));
    EXPECT_EQ(members(*mesh.across, mesh.rank), (Ranks{data % 2 * 2 + tp, 4 + data % 2 * 2 + tp}));
    LiveMesh flat = live_mesh(world, Mesh{{8}, {"dp_shard"}});
    join_nodes(flat, *world, 8, 0);
    EXPECT_FALSE(flat.inside || flat.across);
    EXPECT_EQ(flat.ranks_per_node, 8);
  });
  // Hosts that are a dim's groups, on every rank.
  const Mesh hsdp{{2, 4}, {"dp_replicate", "dp_shard"}};
  for (int64_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(dim_of(hsdp, rank, node_ranks(hsdp, rank, 4).inside), 1);
    EXPECT_EQ(dim_of(hsdp, rank, node_ranks(hsdp, rank, 4).across), 0);
    EXPECT_EQ(dim_of(hsdp, rank, node_ranks(hsdp, rank, 2).inside), -1);
  }
}

TEST(DeviceMesh, SlicesAndFlatten) {
  with_world(8, [](std::shared_ptr<World> world) {
    DeviceMesh mesh(world, Mesh{{2, 2, 2}, {"dp_replicate", "dp_shard", "tp"}});
    int64_t rank = world->rank();
    LiveMesh tp = mesh["tp"];
    EXPECT_EQ(text(tp.words), "[tp=2]");
    EXPECT_EQ(tp.rank, rank % 2);
    EXPECT_EQ(members(*tp.world, rank), (Ranks{rank / 2 * 2, rank / 2 * 2 + 1}));
    EXPECT_EQ(tp.world, mesh.group("tp"));
    EXPECT_EQ(tp.data->size(), 1);

    LiveMesh data = mesh.slice({"dp_replicate", "dp_shard"});
    EXPECT_EQ(text(data.words), "[dp_replicate=2, dp_shard=2]");
    EXPECT_EQ(data.rank, rank / 2);
    EXPECT_EQ(data.world, mesh.live().data);
    EXPECT_EQ(data.data, mesh.live().data);

    LiveMesh outer = mesh.slice({"dp_replicate", "tp"});
    EXPECT_EQ(outer.rank, rank / 4 * 2 + rank % 2);
    int64_t shard = rank / 2 % 2;
    EXPECT_EQ(members(*outer.world, rank), (Ranks{2 * shard, 2 * shard + 1, 4 + 2 * shard, 5 + 2 * shard}));
    EXPECT_EQ(outer.data, mesh.group("dp_replicate"));

    EXPECT_EQ(mesh.flatten({"dp_shard", "tp"}), mesh.flatten({"tp", "dp_shard"}));
    EXPECT_EQ(mesh.flatten({"dp_replicate", "dp_shard", "tp"}), world->group());
    if (rank == 0) {
      expect_error<UserError>([&] { mesh["cp"]; }, {"no dim \"cp\"", "dp_replicate, dp_shard, tp"});
      expect_error<UserError>([&] { mesh.group("pp"); }, {"no dim \"pp\""});
      expect_error<UserError>([&] { mesh.slice({"tp", "dp_shard"}); },
                              {"[tp, dp_shard] is out of order", "[dp_replicate=2, dp_shard=2, tp=2]"});
      expect_error<UserError>([&] { mesh.flatten({"tp", "tp"}); }, {"\"tp\" is named twice"});
    }
  });
}

TEST(DeviceMesh, DifferentWordsAreRefusedOnEveryRankBeforeAnySplit) {
  for (const auto& [odd, odd_text] : std::vector<std::pair<Mesh, std::string>>{
           {Mesh{{2, 2}, {"dp_shard", "tp"}}, "[dp_shard=2, tp=2]"},
           {Mesh{{4, 1}, {"dp_replicate", "tp"}}, "[dp_replicate=4, tp=1]"},
           {Mesh{{3}, {"dp_replicate"}}, "[dp_replicate=3]"}}) {
    std::atomic<int> refused{0};
    with_world(4,
               [&, &odd = odd, &odd_text = odd_text](std::shared_ptr<World> world) {
                 Mesh words = world->rank() == 2 ? odd : Mesh{{2, 2}, {"dp_replicate", "tp"}};
                 expect_error<UserError>([&] { DeviceMesh mesh(world, words); },
                                         {"the mesh differs between ranks",
                                          "rank 0 has [dp_replicate=2, tp=2]", "rank 2 has " + odd_text});
                 ++refused;
               },
               {.deadline_s = 60});
    EXPECT_EQ(refused, 4);
  }
}

TEST(DeviceMesh, HasAsManyPlacesAsTheWorld) {
  with_world(3,
             [](std::shared_ptr<World> world) {
               expect_error<UserError>([&] { live_mesh(world, Mesh{{2, 2}, {"dp_shard", "tp"}}); },
                                       {"[dp_shard=2, tp=2] has 4 places", "there are 3 ranks", "--nproc 4"});
             },
             {.deadline_s = 60});
}

TEST(LocalWorld, SplitOrdersByKeyThenRank) {
  for (int n : {1, 2, 3, 4, 7})
    with_world(n,
               [n](std::shared_ptr<World> world) {
                 auto reversed = world->split(0, -world->rank(), "reversed");
                 EXPECT_EQ(reversed->rank(), n - 1 - world->rank());
                 auto parity = world->split(world->rank() % 2, 0, "parity");
                 EXPECT_EQ(parity->rank(), world->rank() / 2);
                 EXPECT_EQ(parity->size(), (n + 1 - world->rank() % 2) / 2);
                 EXPECT_EQ(members(*parity, world->rank())[0], world->rank() % 2);
                 auto again = world->split(world->rank() % 2, 0, "parity");
                 EXPECT_NE(again, parity);
                 int64_t sum = 1;
                 all_reduce(*again, {&sum, &sum, 1, DType::i64});
                 EXPECT_EQ(sum, again->size());
                 world->finish();
               },
               {.deadline_s = 60});
}
