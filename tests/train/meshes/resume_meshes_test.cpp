// Save on each of 8 meshes, go on on each of 8: 64 pairs. What is loaded is what was saved, and a run that
// never stopped has the same bits.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

struct Place {
  const char* name;
  Mesh mesh;
  int zero = 3;
};

const std::vector<Place>& places() {
  static const std::vector<Place> all{{"one rank", {{1}, {"dp_replicate"}}},
                                      {"ddp 3", {{3}, {"dp_replicate"}}},
                                      {"zero1 2", {{2}, {"dp_shard"}}, 1},
                                      {"zero2 4", {{4}, {"dp_shard"}}, 2},
                                      {"zero3 3", {{3}, {"dp_shard"}}},
                                      {"hsdp 2x2", {{2, 2}, {"dp_replicate", "dp_shard"}}},
                                      {"tp 2", {{2}, {"tp"}}},
                                      {"zero3 2 x tp 2", {{2, 2}, {"dp_shard", "tp"}}}};
  return all;
}

class ResumeMeshes : public testing::TestWithParam<std::string> {};

TEST_P(ResumeMeshes, SixtyFourPairs) {
  ScratchFolder folder;
  auto tp = [](const Place& place) { return place.mesh.size("tp"); };
  std::vector<std::string> saved;
  for (size_t from = 0; from < places().size(); ++from) {
    TinyRun run{.model = GetParam(), .mesh = places()[from].mesh, .zero = places()[from].zero, .steps = 2};
    run.save = folder.path(str("from", from));
    saved.push_back(train_tiny(run).hash);
  }
  for (size_t to = 0; to < places().size(); ++to) {
    TinyRun run{.model = GetParam(), .mesh = places()[to].mesh, .zero = places()[to].zero, .steps = 3};
    const TinyResult whole = train_tiny(run);
    for (size_t from = 0; from < places().size(); ++from) {
      run.load = folder.path(str("from", from));
      const TinyResult rest = train_tiny(run);
      const std::string what = str(places()[from].name, " -> ", places()[to].name);
      EXPECT_EQ(rest.loaded, saved[from]) << what;
      ASSERT_EQ(rest.losses.size(), 1u) << what;
      if (tp(places()[from]) == tp(places()[to])) {
        EXPECT_EQ(rest.losses.back(), whole.losses.back()) << what;
        EXPECT_EQ(rest.norms.back(), whole.norms.back()) << what;
        EXPECT_EQ(rest.hash, whole.hash) << what;
      } else {
        EXPECT_LT(relative_difference(whole.losses.back(), rest.losses.back()), 2e-5) << what;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ResumeMeshes, testing::Values("gpt", "llama"));

}  // namespace
}  // namespace lockstep::tests
