// make_bucket_sum: chooses how a bucket's gradients are added.
#pragma once

#include "compiler/program/sums/bucket_sum.h"

namespace lockstep::compiler {

// UserError if one sum would have more addends than the device adds at once. `turns` is shared by the buckets
// of a step; all arguments must outlive the sum.
std::unique_ptr<BucketSum> make_bucket_sum(ProgramWriter& writer, const SumPlan& plan, SumTurns& turns,
                                           size_t bucket, const std::vector<Shape>& shapes, DType dtype);

}  // namespace lockstep::compiler
