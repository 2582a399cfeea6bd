// Updates: optimizer nodes, and converts of weights that lie as rows, run together, one multi-tensor launch
// per op.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/pass.h"
#include "compiler/program/kept_gradients.h"
#include "core/device/stream.h"

namespace lockstep::compiler {

// One update or convert node on this rank's rows: `count` elements per tensor. Outputs may be the storage of
// inputs. An update may write its first output a second time, rounded to another dtype: the copy that the
// next step computes with.
struct UpdateCall {
  const Graph* graph = nullptr;
  const Node* node = nullptr;
  int64_t count = 0;
  std::vector<void*> inputs, outputs;
  void* copy = nullptr;  // null: none
  DType copy_dtype = DType::f32;
  void *scale = nullptr, *scale_before = nullptr;  // of a copy in float8: body_by_scale()
  void* largest = nullptr;  // where the largest magnitude of the result in bf16 stays; null: nowhere
  std::vector<int> halves;  // inputs that lie in bf16 and are f32 in the node
  int by_rows = -1;         // the input that is no memory but `rows`, with zeros between them; -1: none
  ByRows::Table rows;
  std::vector<void*> gates;  // of an update: per value of update_gates(), it and its limit; see gated_body()
};

// What the calls of one instruction enqueue: generated multi-tensor kernels, one launch per op, or the
// reference evaluator when `kernels` is null (copies are not written then). Pointers are of the device.
std::function<void(Stream&)> bind_updates(const std::vector<UpdateCall>& calls,
                                          std::shared_ptr<const KernelSet> kernels,
                                          const CompileOptions& options);

// State that the head of a program rounds (weights in bf16 compute), and to what.
std::map<std::string, DType> rounded_state(const Phases& phases);

// The kernels of the updates and head converts of a program, for compilation; and their names for the
// certificate, as they are where no gradient is kept and copies are those of bf16, since neither decides a
// bit.
std::vector<KernelSource> update_kernels(const Phases& phases, const CompileOptions& options,
                                         const KeptGradients& kept = {}, bool for_float8 = false);

}  // namespace lockstep::compiler
