// WeightStream: the gathers of weights inside of a body, for ZeRO 3. The body's executable says when and
// where to; this says from where.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "compiler/program/held_rows.h"
#include "compiler/runtime/executable.h"
#include "compiler/schedule/phases.h"
#include "core/mesh/array.h"

namespace lockstep {

class WeightStream : public WeightGathers {
 public:
  // `at` holds a pointer of the device per value of the whole program; those of the rows must stay the same
  // while the stream lives.
  WeightStream(const Phases& phases, const GatherPlan& plan, const LiveMesh& mesh, Device& device,
               const PerValue<void*>& at);

  void start(int bucket, const std::vector<void*>& to, Stream& stream) override;
  void wait(int bucket, Stream& stream) override;

 private:
  struct Source {
    ValueId rows;
    std::vector<int64_t> counts;  // elements per rank of the group
    DType dtype = DType::f32;
    Group* group = nullptr;
  };
  const GatherPlan& plan_;
  const PerValue<void*>& at_;
  std::map<int, Source> sources_;                            // by input of the body
  std::map<int, std::vector<std::shared_ptr<Work>>> works_;  // by bucket under way
};

}  // namespace lockstep
