// Target: what a kind of device gives to the compiler. Kernels from fused bodies, library calls for claimed
// ops, and the sums and copies of the reduction over lanes. compiler/runtime knows devices through this and
// core/device/device.h only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/codegen/kernel.h"
#include "compiler/codegen/library/library.h"
#include "compiler/pass.h"
#include "core/device/device.h"

namespace lockstep::compiler {

// A kernel ready to launch. args: pointers of the device, the body's inputs in order, then its outputs. The
// pointers are read before enqueue returns. No bit depends on `threads`.
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
// host memory, read before enqueue returns; the pointers in `table` and `scalars` are the device's.
class MultiTensorKernel {
 public:
  virtual ~MultiTensorKernel() = default;
  virtual void enqueue(void* const* table, const int64_t* numels, const float* per_tensor, int64_t tensors,
                       void* const* scalars, Stream& stream, int threads) const = 0;
  // The same for tables, of each of which one per-element input has rows for some ids and is 0 elsewhere: its
  // pointer in `table` is not read. The bits are those of enqueue with that input in memory. Only where
  // Target::updates_by_rows(). `launch` outlives the work.
  virtual void enqueue_by_rows(const ByRows&, Stream&, int) const {
    throw InternalError("this device updates no tables by rows");
  }
};

// A launch over tables of [rows, width] by rows of f32.
struct ByRows {
  struct Table {
    const int32_t* ids = nullptr;  // [count], ascending; of equal ones the first counts, -1 is no row
    const float* rows = nullptr;   // [count, width]
    int64_t count = 0, width = 0;
    int64_t first = 0;  // the id of the first row of the pointers in `table`
  };
  std::vector<Table> tables;
  size_t input = 0;                  // the column of `table` that these are
  std::vector<size_t> element_size;  // per column of `table`
  std::vector<void*> table, scalars;
  std::vector<int64_t> numels;
  std::vector<float> per_tensor;  // as enqueue() takes them
};

// The compiled kernels of a program, loaded on this rank's device.
class KernelSet {
 public:
  virtual ~KernelSet() = default;
  virtual const Kernel& find(
      const std::string& name) const = 0;  // InternalError when there is none; lives as long as the set
  virtual const MultiTensorKernel& find_multi_tensor(const std::string& name) const = 0;
  virtual const std::string& binary()
      const = 0;  // machine code and launch sizes with a checksum, for a file or a broadcast
  virtual std::string hash() const = 0;  // of the binary: enters the log
  virtual bool from_cache() const = 0;
};

// Sums and copies around the exchange of gradients, all fp32 or integers, in an order that is a function of
// the arguments alone. Gradients may be bf16: they are widened, which is exact, before they are added.
class Reductions {
 public:
  virtual ~Reductions() = default;

  struct Run {       // elements that are contiguous in a tensor's gradient and in a partial
    int64_t at = 0;  // in the partial, in elements
    const void* from = nullptr;
    int64_t count = 0;
    DType dtype = DType::f32;  // of `from`: f32 or bf16
  };
  // For every run and element: to[at + i] = lefts[n-1][at + i] + (... + (lefts[0][at + i] + from[i])); with
  // no lefts a copy. `to` may be lefts[n-1]. Runs do not overlap and are in order of `at`.
  virtual void accumulate(std::span<const Run> runs, std::span<const float* const> lefts, float* to,
                          Stream& stream) = 0;

  // The last additions of one tensor's rows: out = the tree over sources, and per row the sum of squares in
  // f64. After source s was pushed, merges[s] times the topmost two partials are added (left + right).
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
    float* out = nullptr;           // null: the squares alone are wanted
    double* row_squares = nullptr;  // one per row; null: not wanted
  };
  virtual void sum(std::span<const Sum> sums, Stream& stream) = 0;
  // How many sources one Sum, and how many lefts one accumulate() may have.
  virtual size_t most_sources() const { return SIZE_MAX; }
  virtual size_t most_lefts() const { return SIZE_MAX; }

  // Begin to prepare, beside the caller, what accumulate() with so many lefts and sum() over such sources
  // will need: of all that are begun before the first of them runs, one waits for the longest alone.
  virtual void begin_accumulate(size_t /*lefts*/) {}
  virtual void begin_sum(const std::vector<int>& /*merges*/, const std::vector<DType>& /*sources*/) {}

  // words[8] (int64, see Limbs in compiler/codegen/sums/exact_norm.h) = the exact sum of all non-negative
  // doubles, normalised, so that words of ranks can be added as integers.
  struct Doubles {
    const double* from = nullptr;
    int64_t count = 0;
  };
  virtual void limbs(std::span<const Doubles> addends, int64_t* words, Stream& stream) = 0;
  // *norm = float(sqrt(the sum that the words hold)), rounded once to double and once to float.
  virtual void norm_of_limbs(const int64_t* words, float* norm, Stream& stream) = 0;

  // Rows of equal ids are added in the order in which they stand. The distinct ids, ascending, come first,
  // with their sums and the squares of these in f64; the last of them fills up the rest, with squares of 0.
  // UserError for an id outside of [0, table_rows), here or by check(). Only where Target::sums_rows(). Of
  // ids outside of [first, first + owned) nothing is kept, and ids are told from `first` on; where none is
  // kept, all are -1, with rows of 0. Less than the whole table is asked only where Target::takes_rows().
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
  // Per part to[i] = row ids[i] of a table of which the rows [first, first + rows) are at `table`; zeros for
  // other ids. UserError for an id outside of [0, table_rows), where table_rows is not 0. Only where
  // Target::takes_rows().
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
  // Row ids[i] of the table becomes rows[i], unless a gate is beyond its limit, or no number. Equal ids stand
  // side by side; -1 is no row.
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
  // UserError for what was found wrong in work that is done: a device that runs behind the host tells it
  // here, once. Call it when the stream was waited for.
  virtual void check() {}

  struct Copy {
    void* to = nullptr;
    const void* from = nullptr;
    size_t bytes = 0;
  };
  virtual void copy(std::span<const Copy> copies,
                    Stream& stream) = 0;  // regions do not overlap, except where to == from
  struct Bytes {
    const void* from = nullptr;  // at a multiple of 8
    size_t bytes = 0;
  };
  // Where *wanted is not 0: sums[i] = the sum of part i's 64-bit words (the last filled up with zero bytes),
  // wrapping. Else sums are 0.
  virtual void checksums(std::span<const Bytes> parts, uint64_t* sums, const int64_t* wanted,
                         Stream& stream) = 0;
  // totals[i] += addend[i] (int64).
  virtual void add(int64_t* totals, const int64_t* addend, int64_t count, Stream& stream) = 0;
};

struct TargetOptions {
  int threads = 1;
  std::string cache_dir;  // of kernels; "" = the default folder
  bool tf32 = false;      // products of f32 may round their operands to TF32 (only where the device has it)
  // Runs of a call that may go together, at most: products take algorithms that are good for so many, and
  // that each of any number of them may have. It decides bits.
  int64_t together = 1;
};

// What lengths of rows do to matrix products: those whose rows are multiples of `multiple` elements run at
// `whole_flops` a second, others at `ragged_flops`; one of fewer operations than `filled` at its share of
// these rates, at least a quarter. A copy moves `bytes` a second and costs a `launch` (seconds).
struct ProductRows {
  int64_t multiple = 1;
  double ragged_flops = 1, whole_flops = 1, bytes = 1, launch = 0, filled = 0;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual Device& device() const = 0;
  // Composites that stay whole because make_library_call knows them.
  virtual bool claims(OpId op) const = 0;
  virtual bool is_library_op(OpId op) const = 0;
  // Whether argument `index` of the node (inputs, then outputs) may be strided with a dense last dim.
  virtual bool accepts_strides(const Node& node, size_t index) const = 0;
  // Whether a convolution (or a gradient of one) is faster where its tensors lie channels last;
  // make_library_call takes such strides of it then.
  virtual bool wants_channels_last(const Graph&, const Node&, const TargetOptions&) const { return false; }
  // Of products of this dtype; a multiple of 1: any rows are as good.
  virtual ProductRows product_rows(DType, const TargetOptions&) const { return {}; }
  // Whether one kernel should sum over rows and over columns of a space of these sizes, where a body asks for
  // both: each of its rows is whole in one place, and a sum of each column beside it.
  virtual bool sums_both_ways(int64_t /*rows*/, int64_t /*columns*/) const { return true; }
  virtual KernelSource generate(
      const Graph& body) const = 0;  // as generate_kernel; any body that fits_one_kernel
  // The same for a kernel of which so many runs may go together (Kernel::enqueue_together).
  virtual KernelSource generate_together(const Graph& body, int64_t /*together*/) const {
    return generate(body);
  }
  virtual KernelSource generate_multi_tensor(
      const Graph& body) const = 0;  // as compiler::generate_multi_tensor
  // Kernels compiled (or from the cache) and loaded. UserError with the compiler's first lines.
  virtual std::shared_ptr<const KernelSet> compile(std::vector<KernelSource> sources,
                                                   const TargetOptions& options) const = 0;
  // Begins what compile() of the same sources waits for, beside its caller.
  virtual void begin_compile(const std::vector<KernelSource>&, const TargetOptions&) const {}
  virtual std::shared_ptr<const KernelSet> load(const std::string& binary) const = 0;
  virtual std::unique_ptr<LibraryCall> make_library_call(const Node& node, const std::vector<Operand>& in,
                                                         const std::vector<Operand>& out,
                                                         const TargetOptions& options) const = 0;
  // Waits until all kernels that make_library_call and make_reductions began to compile, which goes on beside
  // their callers, are compiled and loaded; throws where one of them fails. Without it each call waits for
  // its own kernels when it is enqueued first.
  virtual void finish_library_calls() const {}
  virtual bool sums_rows() const { return false; }   // whether its Reductions have sum_rows and put_rows
  virtual bool takes_rows() const { return false; }  // and take_rows, and sums those of owners
  // Whether its MultiTensorKernels take a tensor's own scalars by pointer, and leave its largest element.
  virtual bool rounds_by_scales() const { return false; }
  // Whether its MultiTensorKernels have enqueue_by_rows, and its Reductions sum_rows.
  virtual bool updates_by_rows() const { return false; }
  // With scratch of its own: one per step, and another one while the step is planned, whose kernels begin to
  // compile then.
  virtual std::unique_ptr<Reductions> make_reductions(const TargetOptions& options) const = 0;
  virtual std::string library_version()
      const = 0;  // of what decides bits beside our own kernels: "oneDNN 2.6.3 (avx512_core)"
};

// The CPU: generated C++, oneDNN.
const Target& cpu_target();
// The target that options without one mean: the CPU's, until a Session chose its device. Set before anything
// is compiled.
void set_default_target(const Target& target);
// The target of a compilation, and what it is asked with.
const Target& target_of(const CompileOptions& options);
TargetOptions target_options(const CompileOptions& options);

}  // namespace lockstep::compiler
