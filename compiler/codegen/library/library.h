// Library calls: the claimed ops (contractions, attention, row sums by index) as prepared calls {workspace,
// run}. Work is cut into fixed blocks that depend only on the shapes, and each block runs on one thread. So
// bits do not depend on the thread count.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/stream.h"
#include "core/ir/graph.h"

namespace lockstep::compiler {

// One argument: its type and its strides in elements.
struct Operand {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<int64_t> strides;
};
Operand dense_operand(DType dtype, const Shape& shape);
bool is_dense(const Operand& operand);

// Several runs of one call on memory at equal distances: a call made for one micro-batch, applied to
// neighbouring ones.
struct Repeats {
  int64_t count = 1;
  const int64_t* strides = nullptr;  // per argument, bytes from one run to the next
  size_t args = 0;                   // number of arguments
  int64_t workspace = 0;             // bytes from one run's workspace to the next
  // The next run's arguments.
  void step(void** all) const {
    for (size_t i = 0; i < args; ++i) all[i] = static_cast<char*>(all[i]) + strides[i];
  }
};

class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  // Bytes; the workspace address is 256-byte aligned.
  virtual size_t workspace(int threads) const { return static_cast<void>(threads), 0; }
  // args: inputs, then outputs; pointers of the device, read before enqueue returns.
  virtual void enqueue(void* const* args, void* workspace, Stream& stream, int threads) const = 0;
  // Enqueues all runs in fewer launches, with the bits that each has on its own. Returns false and enqueues
  // nothing if it cannot.
  virtual bool enqueue_together(void* const* args, void* workspace, const Repeats& repeats, Stream& stream,
                                int threads) const {
    static_cast<void>(args), static_cast<void>(workspace), static_cast<void>(repeats);
    static_cast<void>(stream), static_cast<void>(threads);
    return false;
  }
  // Whether several runs may be in progress at once, on streams of one device, each with its own workspace.
  virtual bool runs_side_by_side() const { return false; }
  virtual std::string algorithm() const = 0;  // for the numerics certificate
  virtual double flops() const { return 0; }
};

// A call that runs synchronously on the calling thread: the CPU's.
class HostCall : public LibraryCall {
 public:
  virtual void run(void* const* args, void* workspace, int threads) const = 0;
  void enqueue(void* const* args, void* workspace, Stream& stream, int threads) const final {
    static_cast<void>(stream);
    run(args, workspace, threads);
  }
};

bool is_library_op(OpId op);
// True when argument `index` (inputs, then outputs) may be strided with a dense last dim.
bool accepts_strides(const Node& node, size_t index);
// InternalError for a node that is not a library op.
std::unique_ptr<LibraryCall> make_library_call(const Node& node, const std::vector<Operand>& in,
                                               const std::vector<Operand>& out);
std::string library_version();  // "oneDNN 2.6.3 (avx512_core)"

// The families that make_library_call dispatches to.
std::unique_ptr<LibraryCall> make_contraction(const Node& node, const std::vector<Operand>& in,
                                              const std::vector<Operand>& out);
// convolution and its gradients in f32, bf16 and f16, dense; those of images channels last if the convolution
// is faster in that layout.
bool wants_channels_last(const Graph& graph, const Node& node);
std::unique_ptr<LibraryCall> make_convolution(const Node& node, const std::vector<Operand>& in,
                                              const std::vector<Operand>& out);
std::unique_ptr<LibraryCall> make_attention(const Node& node, const std::vector<Operand>& in,
                                            const std::vector<Operand>& out);
std::unique_ptr<LibraryCall> make_row_sums(const Node& node, const std::vector<Operand>& in,
                                           const std::vector<Operand>& out);
// max_pool_grad, dense.
std::unique_ptr<LibraryCall> make_pooling(const Node& node, const std::vector<Operand>& in,
                                          const std::vector<Operand>& out);
// quantize and scaled_mm (core/table/float8.cpp), dense.
std::unique_ptr<LibraryCall> make_float8(const Node& node, const std::vector<Operand>& in,
                                         const std::vector<Operand>& out);
// The host function of a registered op (core/table/register.h).
std::unique_ptr<LibraryCall> make_own_call(const Node& node, const std::vector<Operand>& in,
                                           const std::vector<Operand>& out);

// Row-major C[m,n] = A B + beta C on the calling thread (oneDNN's sgemm): A is [m,k], or [k,m] when ta; B is
// [k,n], or [n,k] when tb; ld* in elements.
void sgemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
           int64_t ldb, float beta, float* c, int64_t ldc);

}  // namespace lockstep::compiler
