// Finds the forms of gradient sums, from a program, or from a small one that adds a single tensor.
#include "compiler/program/build/sum_forms.h"

#include <algorithm>

#include "compiler/program/sums/make_bucket_sum.h"

namespace lockstep::compiler {

SumForms sum_forms(const StepProgram& program) {
  SumForms out;
  for (const Instr& instr : program.instrs) {
    if (const auto* add = std::get_if<Accumulate>(&instr.what)) out.lefts.insert(add->lefts.size());
    const auto* sums = std::get_if<SumTrees>(&instr.what);
    for (size_t t = 0; sums && t < sums->trees.size(); ++t) {
      std::vector<DType> dtypes;
      for (const auto& source : sums->trees[t].sources) dtypes.push_back(source.dtype);
      out.trees.insert({sums->trees[t].merges, std::move(dtypes)});
    }
  }
  return out;
}

SumForms foretold_sum_forms(const StepPlan& plan, const ProgramRank& rank) {
  StepProgram program;
  ProgramWriter writer(program);
  const SumPlan sums = sum_plan_of(plan, rank);
  const LanePlan& lanes = sums.lanes;
  const int64_t slots = lanes.slots(lanes.rank);
  int64_t together =
      lanes.order == LaneOrder::contiguous ? std::max<int64_t>(1, std::min(plan.options.together, slots)) : 1;
  while (together > 1 && slots % together) --together;
  SumTurns turns;
  std::vector<DType> dtypes = bucket_dtypes(plan);
  std::sort(dtypes.begin(), dtypes.end());
  dtypes.erase(std::unique(dtypes.begin(), dtypes.end()), dtypes.end());
  SumTrees last;
  std::vector<std::unique_ptr<BucketSum>> buckets;
  for (DType dtype : dtypes) {
    const Shape shape{lanes.ranks};  // one row per owner
    const auto bytes = lanes.ranks * static_cast<int64_t>(size_of(dtype));
    const Span gradient = writer.region(Region::Kind::input, "gradient", bytes);
    buckets.push_back(make_bucket_sum(writer, sums, turns, buckets.size(), {shape}, dtype));
    BucketSum& bucket = *buckets.back();
    for (int64_t slot = 0; slot < slots; slot += together) {
      const bool idle = lanes.micro_batch(lanes.rank, slot) < 0;
      bucket.add_all(slot,
                     std::vector<std::vector<Span>>(static_cast<size_t>(together),
                                                    idle ? std::vector<Span>{} : std::vector{gradient}));
    }
    bucket.end();
    bucket.wait();
    if (!bucket.is_whole()) last.trees.push_back(bucket.tree_of(0, {}));
  }
  writer.put(std::move(last));
  return sum_forms(program);
}

}  // namespace lockstep::compiler
