// StepProgram: one rank's step, instruction by instruction, over spans of memory. It is the compiler's last
// IR. It is printed and checked, memory and traffic are totals over it, and one executor runs it. It has no
// device and no group.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compiler/program/blocks/block.h"
#include "compiler/program/words/replica.h"
#include "compiler/program/words/span.h"
#include "core/ir/graph.h"

namespace lockstep::compiler {

// A range of memory with one owner.
struct Region {
  enum class Kind {
    state,    // a tensor of the state, this rank's part of it; `name` is its FQN
    input,    // values that change from step to step: host scalars, batch fields, sample numbers
    arena,    // of a block: activations and workspaces
    value,    // values that outlive a block: sums, norms, rounded weights, gathered weights
    partial,  // sums over micro-batches of a bucket, and what other ranks send for them
    staging,  // data packed for sending
    result,   // counts, votes and checksums, for the step's caller
  };
  Kind kind = Kind::value;
  std::string name;
  int64_t bytes = 0;
  // For state, and for an arena of waiting values: in host memory, which only StartCopies accesses.
  bool on_host = false;
  bool operator==(const Region&) const = default;
};

// The calls [first, last) of a block, for one micro-batch or for neighbouring ones together: each call runs
// for all of them before the next call.
struct RunBlock {
  int block = 0;
  int first = 0, last = 0;
  // Per graph input of the block, for the first micro-batch; absent: gathered into an arena.
  std::vector<Span> inputs;
  Span own = {}, shared = {};  // its arenas; the own arenas of several micro-batches are adjacent
  int64_t micro_batches = 1;
  std::vector<int64_t> strides = {};  // for several: per input, bytes from one micro-batch to the next
  int64_t own_stride() const { return own.bytes / micro_batches; }
  bool operator==(const RunBlock&) const = default;
};
// A run of several, as a run of only the j-th.
RunBlock of_micro_batch(const RunBlock& run, int64_t j);

// Starts a collective after everything before it; its spans stay untouched until its wait.
struct StartCollective {
  enum class Verb { all_gather, all_to_all, all_reduce, reduce_scatter, send, recv };
  Verb verb = Verb::all_reduce;
  std::string along;         // mesh dim, "data" (all data dims), "inside_hosts", "across_hosts"
  DType dtype = DType::f32;  // on the wire
  // Elements to and from each member; all_reduce has one count, in `send`.
  std::vector<int64_t> send = {}, receive = {};
  int peer = -1;  // of send and recv
  Span from = {}, to = {};
  int flight = -1;  // the number of the flight in the program: an operation from its start to its wait
  std::string label = {};
  bool more = false;  // of all_gather: the next instruction is a gather along the same dim, launched with it
  bool operator==(const StartCollective&) const = default;
};
struct Wait {
  int flight = -1;
  bool operator==(const Wait&) const = default;
};

// to = lefts[n-1] + (... + (lefts[0] + gradients)): adds a micro-batch's gradients, laid out by owner, to the
// partial sums to their left in the tree.
struct Accumulate {
  struct Piece {  // elements that are contiguous in a gradient and in the bucket
    Span from;
    int64_t at = 0;  // in the bucket, elements
    DType dtype = DType::f32;
    bool operator==(const Piece&) const = default;
  };
  std::vector<Piece> pieces;
  std::vector<Span> lefts;
  Span to;
  bool operator==(const Accumulate&) const = default;
};

// Sums over trees, by a stack. Sources are pushed in order; after the i-th, the topmost two are added
// merges[i] times (left + right). Optionally, per row, the sum of squares in f64.
struct SumTrees {
  struct Tree {
    struct Source {
      Span at;
      DType dtype = DType::f32;
      bool operator==(const Source&) const = default;
    };
    std::vector<Source> sources = {};
    std::vector<int> merges = {};
    int64_t rows = 0, width = 0;
    Span out = {}, row_squares = {};
    // Its only addend is already the sum, in the addend's dtype: only its squares are written.
    bool stays() const { return sources.size() == 1 && out == sources[0].at; }
    // The place of the sum. A tensor without rows here may have room for an element there.
    Span sum() const {
      const DType dtype = stays() ? sources[0].dtype : DType::f32;
      return out.part(0, rows * width * static_cast<int64_t>(size_of(dtype)));
    }
    bool operator==(const Tree&) const = default;
  };
  std::vector<Tree> trees;
  bool operator==(const SumTrees&) const = default;
};

struct CopySpans {
  struct Copy {
    Span to, from;
    bool operator==(const Copy&) const = default;
  };
  std::vector<Copy> copies;
  bool operator==(const CopySpans&) const = default;
};
// Copies between host and device memory, one queue in each direction. They begin after everything before
// them; their spans stay untouched until the wait for their flight.
struct StartCopies {
  bool to_host = false;  // else to the device
  std::vector<CopySpans::Copy> copies;
  int flight = -1;  // its number in the program
  std::string label = {};
  int64_t bytes() const;
  bool operator==(const StartCopies&) const = default;
};
struct ZeroSpan {
  Span at;
  bool operator==(const ZeroSpan&) const = default;
};
// totals += addend, i64.
struct AddCounts {
  Span totals, addend;
  bool operator==(const AddCounts&) const = default;
};

// Many tensors through one kernel: optimizer updates in place, or converts of weights. An update may also
// write its result a second time, rounded: the copy that the next step computes with.
struct UpdateTensors {
  struct Tensor {
    NodeId node;  // of the typed graph: op and constants
    int64_t count = 0;
    std::vector<Span> inputs = {}, outputs = {};
    Span copy = {};
    DType copy_dtype = DType::f32;
    // A float8 copy is the bf16 result times a scale, f32 []; `scale_before` is the scale if nothing is
    // updated.
    Span scale = {}, scale_before = {};
    // f32 []: gets the largest magnitude of the bf16 result, unless it already has a larger one.
    Span largest = {};
    std::vector<int> halves = {};  // inputs stored in bf16 that are f32 in the node: the kernel widens them
    // Input `by_rows` (-1: none) is not a span but the rows of some ids, as SumRows writes them, and 0
    // elsewhere. The tensor's first row is that of id `first`.
    int by_rows = -1;
    Span ids = {}, rows = {};
    int64_t width = 0, first = 0;
    bool operator==(const Tensor&) const = default;
  };
  std::vector<Tensor> tensors;
  std::vector<Span> gates;  // norms, then the loss; if one is beyond its limit, nothing is updated
  std::vector<Span> limits;
  bool operator==(const UpdateTensors&) const = default;
};

// Rows of equal ids, added in their order of appearance. The outputs start with the distinct ids, ascending,
// with their sums and the sums of their squares in f64. The last id fills the rest, with squares of 0.
// Only ids in [first, first + owned) are kept, and output ids count from `first`. If none is kept, all are
// -1, which is no row.
struct SumRows {
  Span ids, rows;
  int64_t width = 0, table_rows = 0;
  int64_t first = 0, owned = 0;
  Span out_ids, out_rows, squares;
  bool operator==(const SumRows&) const = default;
};
// Rows of a table of which this rank has the part [first, ...): per piece one row for each id, zeros for rows
// of other ranks. An id is below `table_rows`. If that is 0, -1 may mean no row.
struct TakeRows {
  struct Piece {
    Span ids, to;
    bool operator==(const Piece&) const = default;
  };
  Span table;
  int64_t width = 0, table_rows = 0, first = 0;
  std::vector<Piece> pieces;
  bool operator==(const TakeRows&) const = default;
};
// Replaces rows of a table, with ids as SumRows writes them; none if a gate is beyond its limit.
struct PutRows {
  Span table, ids, rows;
  int64_t width = 0;
  std::vector<Span> gates, limits;  // as those of UpdateTensors
  bool operator==(const PutRows&) const = default;
};

// words = the exact sum of the doubles, as integers that ranks can add. norm = the root of such words.
struct SumSquares {
  std::vector<Span> addends;
  Span words;
  bool operator==(const SumSquares&) const = default;
};
struct NormOfWords {
  Span words, norm;
  bool operator==(const NormOfWords&) const = default;
};

// If `wanted` is not 0: per part the wrapping sum of its 64-bit words, by which replicas are compared.
struct ChecksumSpans {
  std::vector<Span> parts;
  Span sums, wanted;
  bool operator==(const ChecksumSpans&) const = default;
};
// Hands an output of the body to an observer; only in inspections.
struct ShowOutput {
  int output = 0;
  Span at;
  bool operator==(const ShowOutput&) const = default;
};

struct Instr {
  std::variant<RunBlock, StartCollective, Wait, Accumulate, SumTrees, CopySpans, ZeroSpan, AddCounts,
               UpdateTensors, SumSquares, NormOfWords, ChecksumSpans, ShowOutput, SumRows, PutRows, TakeRows,
               StartCopies>
      what;
  int micro_batch = -1;  // of the step, over all ranks; -1: once per step
  int stage = 0;         // of a pipeline
  SourceLine at;         // the user's line; empty if there is none
};

// A value of the step that its caller reads: a metric, or a norm or loss that gates updates.
struct StepOutput {
  std::string name;  // of a metric; "" for a gate
  Span at;
  DType dtype = DType::f32;
};

// Indices into StepProgram::blocks. Copies: rows of whole sparse tables. Maxima and cast: a rank's own rows
// of float8 weights. Scales: the delayed scales of float8 weights. The others are the phases.
enum StepBlock : int {
  kCountBlock,
  kSeedBlock,
  kBodyBlock,
  kCopiesBlock,
  kMaximaBlock,
  kCastBlock,
  kScalesBlock,
  kTailBlocks
};

struct StepProgram {
  std::vector<Region> regions;
  std::vector<ProgramBlock> blocks;
  std::vector<std::string> block_names;
  std::vector<Instr> refresh;  // before the first step, and after another writer changed the state
  std::vector<Instr> instrs;   // each step
  int flights = 0;
  std::vector<StepOutput> metrics, gates;
  std::vector<Span> updated;  // rows of the state that updates replace
  std::vector<Span> put;      // sparse tables and their moments: a step replaces some rows of each
  // Two i64, summed over the ranks: the stop vote, and the word about replicas.
  Span votes;
  std::vector<Replica> replicas;  // in the order of ChecksumSpans::parts
  int64_t rank = 0;
  std::string mesh;  // as text
  int64_t micro_batches = 1, lanes = 1;

  // The region of this kind and name; absent: none.
  Span find(Region::Kind kind, const std::string& region) const;
  Span whole(int region) const { return {region, 0, regions[region].bytes}; }
};

// The spans that an instruction reads and writes; for a block's calls, each argument. A start reads `from`
// and writes `to`; its wait does neither.
struct Access {
  std::vector<Span> reads, writes;
};
Access access_of(const StepProgram& program, const Instr& instr);
// The span of a call's argument in a run of the block.
Span span_of(const RunBlock& run, const BlockPlace& at, int64_t bytes);
Span output_of(const ProgramBlock& block, const RunBlock& run, size_t output);

// The collective that a block's call starts along its model dim of `ranks`; without flight and spans.
StartCollective start_of(const ProgramBlock& block, const BlockCall& call, int64_t ranks);

std::string_view name(Region::Kind kind);
std::string_view name(StartCollective::Verb verb);
// Bytes that this rank, `self` of the members, sends; an all_reduce counts as a ring.
int64_t sent_bytes(const StartCollective& start, int64_t members, int64_t self);

}  // namespace lockstep::compiler
