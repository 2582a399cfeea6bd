// Ranks on devices that do not go together.
#include <gtest/gtest.h>

#include <atomic>

#include "core/base/error.h"
#include "distributed/local/local_world.h"
#include "launcher/machine/run_device.h"
#include "tests/conformance/far_device.h"

namespace lockstep {
namespace {

class Named : public conformance::FarDevice {
 public:
  Named(std::string kind, std::string text) : kind_(std::move(kind)), text_(std::move(text)) {}
  std::string kind() const override { return kind_; }
  std::string describe() const override { return text_; }

 private:
  std::string kind_, text_;
};

// What every rank says where rank `other` has another device.
void expect_refusal(int ranks, int other, const Named& device, const std::string& text) {
  std::atomic<int> refused = 0;
  EXPECT_THROW(distributed::with_ranks(ranks,
                                       [&](Group& world) {
                                         Named usual("cuda", "GPU A");
                                         try {
                                           launcher::agree_on_device(world, "auto",
                                                                     world.rank() == other ? device : usual);
                                         } catch (const UserError& error) {
                                           EXPECT_EQ(error.what(), text);
                                           ++refused;
                                           barrier(world);  // so that no rank's end is news to the others
                                           throw;
                                         }
                                       }),
               UserError);
  EXPECT_EQ(refused, ranks);
}

TEST(RankDevices, AnotherKindOrModelIsRefusedOnEveryRank) {
  expect_refusal(3, 1, {"cpu", "CPU"},
                 "train.device \"auto\": rank 1 computes on CPU (cpu), rank 0 on GPU A (cuda); all ranks "
                 "need devices of one kind: set "
                 "train.device to \"cpu\", or to \"cuda\" on hosts of one GPU and driver");
  expect_refusal(2, 1, {"cuda", "GPU B"},
                 "train.device \"auto\": rank 1 computes on GPU B (cuda), rank 0 on GPU A (cuda); all ranks "
                 "need devices of one kind: set "
                 "train.device to \"cpu\", or to \"cuda\" on hosts of one GPU and driver");
  expect_refusal(4, 0, {"cpu", "CPU"},
                 "train.device \"auto\": rank 1 computes on GPU A (cuda), rank 0 on CPU (cpu); all ranks "
                 "need devices of one kind: set "
                 "train.device to \"cpu\", or to \"cuda\" on hosts of one GPU and driver");
}

TEST(RankDevices, OneKindPasses) {
  for (int ranks : {1, 2, 3})
    distributed::with_ranks(
        ranks, [](Group& world) { launcher::agree_on_device(world, "auto", Named("cuda", "GPU A")); });
}

}  // namespace
}  // namespace lockstep
