// A bucket's sum for only one micro-batch on one data rank: its gradients are read where the body wrote them.
#include "compiler/program/sums/parts.h"

namespace lockstep::compiler {

namespace {
class OneMicroBatch : public BucketSum {
 public:
  OneMicroBatch(ProgramWriter& writer, const SumPlan& plan, std::string label, PackedRows rows)
      : BucketSum(writer, plan, std::move(label), std::move(rows)) {}

  void add(int64_t, const std::vector<Span>& gradients) override { gradients_ = gradients; }
  void wait() override {}

 private:
  SumTrees::Tree addends_of(size_t tensor) const override {
    return {.sources = {{gradients_.at(tensor), rows_.dtype()}},
            .merges = {0},
            .rows = rows_.owned_rows(tensor).second,
            .width = rows_.width(tensor)};
  }
  std::vector<Span> gradients_;
};
}  // namespace

std::unique_ptr<BucketSum> of_one_micro_batch(ProgramWriter& writer, const SumPlan& plan, std::string label,
                                              PackedRows rows) {
  return std::make_unique<OneMicroBatch>(writer, plan, std::move(label), std::move(rows));
}

}  // namespace lockstep::compiler
