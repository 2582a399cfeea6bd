// Target: a kind of device for the compiler. It gives kernels from fused bodies, library calls for claimed
// ops, and the sums and copies of the reduction over lanes. compiler/runtime accesses devices only through
// this and core/device/device.h.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/codegen/kernel.h"
#include "compiler/codegen/library/library.h"
#include "compiler/pass/pass.h"
#include "core/device/device.h"

namespace lockstep::compiler {

// Whether a gate allows an update: finite, and at most its limit. A loss may fall below zero.
inline bool is_within(float gate, float limit) {
  return gate <= limit && gate >= std::numeric_limits<float>::lowest();
}

// A kernel ready to launch. `args`: device pointers, the body's inputs in order, then its outputs. The
// pointers are read before enqueue returns. Bits do not depend on `threads`.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual size_t workspace() const { return 0; }  // bytes, 256-byte aligned; need not be zeroed
  virtual void enqueue(void* const* args, void* workspace, Stream& stream, int threads) const = 0;
  // As LibraryCall::enqueue_together.
  virtual bool enqueue_together(void* const*, void*, const Repeats&, Stream&, int) const { return false; }
};

struct ByRows;

// One launch updates many tensors of one dtype (see MultiTensorFn in kernel.h for the arguments). Tables are
// host memory, read before enqueue returns; the pointers in `table` and `scalars` are device pointers.
class MultiTensorKernel {
 public:
  virtual ~MultiTensorKernel() = default;
  virtual void enqueue(void* const* table, const int64_t* numels, const float* per_tensor, int64_t tensors,
                       void* const* scalars, Stream& stream, int threads) const = 0;
  // The same for tables. Per table, one per-element input has rows for some ids and is 0 elsewhere; its
  // pointer in `table` is not read. The bits are those of enqueue with that input in memory. Requires
  // Target::updates_by_rows(). `launch` outlives the work.
  virtual void enqueue_by_rows(const ByRows&, Stream&, int) const {
    throw InternalError("this device updates no tables by rows");
  }
};

// A launch over tables of [rows, width] that takes one input as f32 rows of some ids.
struct ByRows {
  struct Table {
    const int32_t* ids = nullptr;  // [count], ascending; the first of equal ids counts, -1 is no row
    const float* rows = nullptr;   // [count, width]
    int64_t count = 0, width = 0;
    int64_t first = 0;  // the id of the first row of the pointers in `table`
  };
  std::vector<Table> tables;
  size_t input = 0;                  // the column of `table` that these rows replace
  std::vector<size_t> element_size;  // per column of `table`
  std::vector<void*> table, scalars;
  std::vector<int64_t> numels;
  std::vector<float> per_tensor;  // the last four as enqueue() takes them
};

// The compiled kernels of a program, loaded on this rank's device.
class KernelSet {
 public:
  virtual ~KernelSet() = default;
  // InternalError if no such kernel exists. Lives as long as the set.
  virtual const Kernel& find(const std::string& name) const = 0;
  virtual const MultiTensorKernel& find_multi_tensor(const std::string& name) const = 0;
  // Machine code and launch sizes with a checksum, for a file or a broadcast.
  virtual const std::string& binary() const = 0;
  virtual std::string hash() const = 0;  // of the binary, for the log
  virtual bool from_cache() const = 0;
};

// Sums and copies around the exchange of gradients, all fp32 or integers, in an order that depends only on
// the arguments. Gradients may be bf16; they are widened, which is exact, before they are added.
class Reductions {
 public:
  virtual ~Reductions() = default;

  struct Run {       // elements that are contiguous both in a tensor's gradient and in a partial sum
    int64_t at = 0;  // in the partial sum, in elements
    const void* from = nullptr;
    int64_t count = 0;
    DType dtype = DType::f32;  // of `from`: f32 or bf16
  };
  // For every run and element: to[at + i] = lefts[n-1][at + i] + (... + (lefts[0][at + i] + from[i])).
  // Without lefts this is a copy. `to` may be lefts[n-1]. Runs do not overlap and are ordered by `at`.
  virtual void accumulate(std::span<const Run> runs, std::span<const float* const> lefts, float* to,
                          Stream& stream) = 0;

  // The last additions of one tensor's rows: out = the tree over sources, and per row the sum of squares in
  // f64. It is a stack: after source s is pushed, the topmost two partials are added (left + right) merges[s]
  // times.
  struct Source {
    const void* at = nullptr;
    DType dtype = DType::f32;  // f32 or bf16
    Source(const float* values) : at(values) {}
    Source(const void* values, DType type) : at(values), dtype(type) {}
    bool operator==(const Source&) const = default;
  };
  struct Sum {
    std::vector<Source> sources;  // each rows * width elements
    std::vector<int> merges;
    int64_t rows = 0, width = 0;
    float* out = nullptr;           // null: only the squares are wanted
    double* row_squares = nullptr;  // one per row; null: not wanted
  };
  virtual void sum(std::span<const Sum> sums, Stream& stream) = 0;
  // The most sources of one Sum, and the most lefts of one accumulate().
  virtual size_t most_sources() const { return SIZE_MAX; }
  virtual size_t most_lefts() const { return SIZE_MAX; }

  // Start preparing, in the background, accumulate() with that many lefts and sum() over such sources. If all
  // are started before the first one runs, the wait is only as long as the longest.
  virtual void begin_accumulate(size_t /*lefts*/) {}
  virtual void begin_sum(const std::vector<int>& /*merges*/, const std::vector<DType>& /*sources*/) {}

  // words[8] (int64, see Limbs in compiler/codegen/sums/exact_norm.h) = the exact sum of all these
  // non-negative doubles, normalised, so that words of ranks can be added as integers.
  struct Doubles {
    const double* from = nullptr;
    int64_t count = 0;
  };
  virtual void limbs(std::span<const Doubles> addends, int64_t* words, Stream& stream) = 0;
  // *norm = float(sqrt(the sum in the words)), rounded once to double and once to float.
  virtual void norm_of_limbs(const int64_t* words, float* norm, Stream& stream) = 0;

  // Rows of equal ids are added in their order of appearance. The outputs start with the distinct ids,
  // ascending, with their sums and the sums' squares in f64. The last id fills the rest, with squares of 0.
  // With an owned range, only ids in [first, first + owned) are kept, and output ids count from `first`. If
  // none is kept, all are -1, with rows of 0. A range smaller than the table requires Target::takes_rows().
  // UserError for an id outside [0, table_rows), here or from check(). Requires Target::sums_rows().
  struct Rows {
    const int32_t* ids = nullptr;  // [count]
    const float* rows = nullptr;   // [count, width]
    int64_t count = 0, width = 0, table_rows = 0;
    int64_t first = 0, owned = -1;  // -1: all
    int32_t* out_ids = nullptr;
    float* out_rows = nullptr;
    double* squares = nullptr;  // [count]
  };
  virtual void sum_rows(const Rows&, Stream&) { throw InternalError("this device sums no rows of tables"); }
  // Per part: to[i] = row ids[i] of a table whose rows [first, first + rows) are at `table`; zeros for other
  // ids. UserError for an id outside [0, table_rows), unless table_rows is 0. Requires Target::takes_rows().
  struct Taken {
    const float* table = nullptr;
    int64_t first = 0, rows = 0, width = 0, table_rows = 0;
    struct Part {
      const int32_t* ids = nullptr;  // [count]
      float* to = nullptr;           // [count, width]
      int64_t count = 0;
    };
    std::vector<Part> parts;
  };
  virtual void take_rows(const Taken&, Stream&) {
    throw InternalError("this device takes no rows of split tables");
  }
  // Row ids[i] of the table becomes rows[i], unless a gate is not within its limit (is_within). Equal ids
  // are adjacent; -1 is no row.
  struct Placed {
    float* table = nullptr;
    const int32_t* ids = nullptr;
    const float* rows = nullptr;
    int64_t count = 0, width = 0, table_rows = 0;
    struct Gate {
      const void* value = nullptr;
      DType dtype = DType::f32;
      const float* limit = nullptr;
    };
    std::vector<Gate> gates;
  };
  virtual void put_rows(const Placed&, Stream&) {
    throw InternalError("this device puts no rows into tables");
  }
  // UserError for a fault found in finished work. A device that runs asynchronously reports it here, once.
  // Call it after waiting for the stream.
  virtual void check() {}

  struct Copy {
    void* to = nullptr;
    const void* from = nullptr;
    size_t bytes = 0;
  };
  // Regions do not overlap, except where to == from.
  virtual void copy(std::span<const Copy> copies, Stream& stream) = 0;
  struct Bytes {
    const void* from = nullptr;  // at a multiple of 8
    size_t bytes = 0;
  };
  // If *wanted is not 0: sums[i] = the wrapping sum of part i's 64-bit words (the last one padded with zero
  // bytes). Else sums are 0.
  virtual void checksums(std::span<const Bytes> parts, uint64_t* sums, const int64_t* wanted,
                         Stream& stream) = 0;
  // totals[i] += addend[i] (int64).
  virtual void add(int64_t* totals, const int64_t* addend, int64_t count, Stream& stream) = 0;
};

struct TargetOptions {
  int threads = 1;
  std::string cache_dir;  // of kernels; "" = the default folder
  bool tf32 = false;      // f32 products may round their operands to TF32 (only on devices that have it)
  // The most runs of a call that may run together. Products then take algorithms that are good for that many,
  // and that any smaller number can use, too. It decides bits.
  int64_t together = 1;
};

// The effect of row lengths on matrix products. Products whose rows are multiples of `multiple` elements run
// at `whole_flops` per second, others at `ragged_flops`. A product of fewer operations than `filled` runs at
// its share of these rates, at least a quarter. A copy moves `bytes` per second and costs one `launch`
// (seconds).
struct ProductRows {
  int64_t multiple = 1;
  double ragged_flops = 1, whole_flops = 1, bytes = 1, launch = 0, filled = 0;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual Device& device() const = 0;
  // Composites that are not expanded because make_library_call implements them.
  virtual bool claims(OpId op) const = 0;
  virtual bool is_library_op(OpId op) const = 0;
  // Whether argument `index` of the node (inputs, then outputs) may be strided with a dense last dim.
  virtual bool accepts_strides(const Node& node, size_t index) const = 0;
  // Whether a convolution (or a gradient of one) is faster with channels-last tensors; make_library_call then
  // accepts such strides for it.
  virtual bool wants_channels_last(const Graph&, const Node&, const TargetOptions&) const { return false; }
  // For products of this dtype. A multiple of 1 means that all row lengths are equally fast.
  virtual ProductRows product_rows(DType, const TargetOptions&) const { return {}; }
  // Whether one kernel should sum over both the rows and the columns of a space of these sizes, if a body
  // needs both. Such a kernel has each row whole in one place, and a sum of each column next to it.
  virtual bool sums_both_ways(int64_t /*rows*/, int64_t /*columns*/) const { return true; }
  // As generate_kernel, for any body that fits_one_kernel.
  virtual KernelSource generate(const Graph& body) const = 0;
  // The same for a kernel of which up to this many runs may run together (Kernel::enqueue_together).
  virtual KernelSource generate_together(const Graph& body, int64_t /*together*/) const {
    return generate(body);
  }
  // As compiler::generate_multi_tensor.
  virtual KernelSource generate_multi_tensor(const Graph& body) const = 0;
  // Kernels, compiled (or from the cache) and loaded. UserError with the compiler's first lines.
  virtual std::shared_ptr<const KernelSet> compile(std::vector<KernelSource> sources,
                                                   const TargetOptions& options) const = 0;
  // Starts, in the background, the work that compile() of the same sources waits for.
  virtual void begin_compile(const std::vector<KernelSource>&, const TargetOptions&) const {}
  virtual std::shared_ptr<const KernelSet> load(const std::string& binary) const = 0;
  virtual std::unique_ptr<LibraryCall> make_library_call(const Node& node, const std::vector<Operand>& in,
                                                         const std::vector<Operand>& out,
                                                         const TargetOptions& options) const = 0;
  // Waits until all kernels that make_library_call and make_reductions started to compile in the background
  // are compiled and loaded; throws if one fails. Without it, each call waits for its own kernels when it is
  // first enqueued.
  virtual void finish_library_calls() const {}
  virtual bool sums_rows() const { return false; }   // whether its Reductions have sum_rows and put_rows
  virtual bool takes_rows() const { return false; }  // and take_rows, and sums those of owners
  // Whether its MultiTensorKernels take a tensor's own scalars by pointer, and store its largest element.
  virtual bool rounds_by_scales() const { return false; }
  // Whether its MultiTensorKernels have enqueue_by_rows, and its Reductions sum_rows.
  virtual bool updates_by_rows() const { return false; }
  // With its own scratch: one per step, and another one while the step is planned, whose kernels then start
  // to compile.
  virtual std::unique_ptr<Reductions> make_reductions(const TargetOptions& options) const = 0;
  // The version of everything that decides bits besides our own kernels: "oneDNN 2.6.3 (avx512_core)".
  virtual std::string library_version() const = 0;
};

// The CPU: generated C++, oneDNN.
const Target& cpu_target();
// The target of options that name none: the CPU's, until a Session chooses its device. Set it before anything
// is compiled.
void set_default_target(const Target& target);
// The target of a compilation, and the options for it.
const Target& target_of(const CompileOptions& options);
TargetOptions target_options(const CompileOptions& options);

}  // namespace lockstep::compiler
