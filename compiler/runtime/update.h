// Updates: optimizer nodes, and converts of weights stored as split rows, run together in one multi-tensor
// launch per op.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/pass/pass.h"
#include "compiler/program/build/kept_gradients.h"
#include "core/device/stream.h"

namespace lockstep::compiler {

// One update or convert node on this rank's rows: `count` elements per tensor. Outputs may share the storage
// of inputs. An update may write its first output a second time, rounded to another dtype: the copy that the
// next step computes with.
struct UpdateCall {
  const Graph* graph = nullptr;
  const Node* node = nullptr;
  int64_t count = 0;
  std::vector<void*> inputs, outputs;
  void* copy = nullptr;  // null: none
  DType copy_dtype = DType::f32;
  void *scale = nullptr, *scale_before = nullptr;  // of a copy in float8: body_by_scale()
  void* largest = nullptr;  // gets the largest magnitude of the bf16 result; null: not wanted
  std::vector<int> halves;  // inputs stored in bf16 that are f32 in the node
  int by_rows = -1;         // the input that has no memory but `rows`, with zeros between them; -1: none
  ByRows::Table rows;
  // For an update: per value of update_gates(), the value and its limit; see gated_body().
  std::vector<void*> gates;
};

// Binds the calls of one instruction: generated multi-tensor kernels, one launch per op, or the reference
// evaluator if `kernels` is null (copies are not written then). Pointers are device pointers.
std::function<void(Stream&)> bind_updates(const std::vector<UpdateCall>& calls,
                                          std::shared_ptr<const KernelSet> kernels,
                                          const CompileOptions& options);

// State that the head of a program rounds (weights in bf16 compute), with the target dtype.
std::map<std::string, DType> rounded_state(const Phases& phases);

// The kernels of a program's updates and head converts, for compilation, and their names for the certificate.
// The certificate uses the names without kept gradients and with bf16 copies, since neither decides a bit.
std::vector<KernelSource> update_kernels(const Phases& phases, const CompileOptions& options,
                                         const KeptGradients& kept = {}, bool for_float8 = false);

}  // namespace lockstep::compiler
