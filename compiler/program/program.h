// StepProgram: what one rank does in a step, instruction by instruction, over spans of memory. The compiler's
// last IR: it is printed and checked, memory and traffic are sums over it, and one executor runs it. It knows
// no device and no group.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compiler/program/block.h"
#include "compiler/program/replica.h"
#include "compiler/program/span.h"
#include "core/ir/graph.h"

namespace lockstep::compiler {

// A stretch of memory that one thing owns.
struct Region {
  enum class Kind {
    state,    // a tensor of the state, this rank's part of it; `name` is its FQN
    input,    // what changes from step to step: host scalars, batch fields, sample numbers
    arena,    // of a block: activations and workspaces
    value,    // what outlives a block: sums, norms, rounded weights, gathered weights
    partial,  // sums over micro-batches of a bucket, and what other ranks send of it
    staging,  // what is packed to be sent
    result,   // counts, votes and checksums: what the step's caller reads
  };
  Kind kind = Kind::value;
  std::string name;
  int64_t bytes = 0;
  bool on_host = false;  // of state, and of an arena whose values wait: in the host's memory, which
                         // StartCopies alone reaches
  bool operator==(const Region&) const = default;
};

// The calls [first, last) of a block, for one micro-batch, or for neighbouring ones together: each call for
// all of them, before the next call.
struct RunBlock {
  int block = 0;
  int first = 0, last = 0;
  std::vector<Span> inputs;    // per graph input of the block, of the first micro-batch; not there: gathered
                               // into an arena
  Span own = {}, shared = {};  // its arenas; of several micro-batches own ones stand one behind another
  int64_t micro_batches = 1;
  std::vector<int64_t> strides = {};  // of several: per input, bytes from one micro-batch's to the next one's
  int64_t own_stride() const { return own.bytes / micro_batches; }
  bool operator==(const RunBlock&) const = default;
};
// What a run of several is for the j-th of them.
RunBlock of_micro_batch(const RunBlock& run, int64_t j);

// A collective begins after everything before it; spans stay untouched until its wait.
struct StartCollective {
  enum class Verb { all_gather, all_to_all, all_reduce, reduce_scatter, send, recv };
  Verb verb = Verb::all_reduce;
  std::string along;         // mesh dim, "data" (all data dims), "inside_hosts", "across_hosts"
  DType dtype = DType::f32;  // on the wire
  std::vector<int64_t> send = {},
                       receive = {};  // elements to and from each member; all_reduce: one count, to send
  int peer = -1;                      // of send and recv
  Span from = {}, to = {};
  int flight = -1;  // its number in the program
  std::string label = {};
  bool more = false;  // of all_gather: the next instruction is a gather along the same dim, launched with it
  bool operator==(const StartCollective&) const = default;
};
struct Wait {
  int flight = -1;
  bool operator==(const Wait&) const = default;
};

// to = lefts[n-1] + (... + (lefts[0] + gradients)): a micro-batch's gradients, laid out by owner, added to
// the partial sums that stand to their left in the tree.
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

// Sums over trees: sources are pushed in order, after the i-th the topmost two are added merges[i] times
// (left + right). Per row the sum of squares in f64, where it is wanted.
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
    // Its only addend is the sum, in the addend's dtype: nothing is written but its squares.
    bool stays() const { return sources.size() == 1 && out == sources[0].at; }
    // Where the sum lies. A tensor without rows here may have room for an element there.
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
// Copies between the host's memory and the device's, one queue in each direction. They begin after everything
// before them; spans stay untouched until their wait, whose flight they are.
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

// Many tensors through one kernel: optimizer updates in place, or converts of weights. An update may write
// its result once more, rounded: the copy that the next step computes with.
struct UpdateTensors {
  struct Tensor {
    NodeId node;  // of the typed graph: op and constants
    int64_t count = 0;
    std::vector<Span> inputs = {}, outputs = {};
    Span copy = {};
    DType copy_dtype = DType::f32;
    // A copy in float8 is the result in bf16 times a scale, f32 []: the one before where nothing is updated.
    Span scale = {}, scale_before = {};
    Span largest =
        {};  // f32 [], where the largest magnitude of the result in bf16 stays, unless it holds more
    std::vector<int> halves = {};  // inputs that lie in bf16 and are f32 in the node: the kernel widens them
    // Input `by_rows` (-1: none) is no span but the rows of some ids, as SumRows leaves them, and 0
    // elsewhere; the tensor's first row is that of id `first`.
    int by_rows = -1;
    Span ids = {}, rows = {};
    int64_t width = 0, first = 0;
    bool operator==(const Tensor&) const = default;
  };
  std::vector<Tensor> tensors;
  std::vector<Span> gates;  // norms, then the loss; beyond its limit nothing is updated
  std::vector<Span> limits;
  bool operator==(const UpdateTensors&) const = default;
};

// Rows of equal ids, added in the order in which they stand: the distinct ids, ascending, with their sums and
// the sums of their squares in f64; the last of them fills up the rest, with squares of 0.
// Of ids beyond [first, first + owned) nothing is kept, and ids are told from `first` on; where none is kept,
// they are -1, which is no row.
struct SumRows {
  Span ids, rows;
  int64_t width = 0, table_rows = 0;
  int64_t first = 0, owned = 0;
  Span out_ids, out_rows, squares;
  bool operator==(const SumRows&) const = default;
};
// Rows of a table whose part [first, ...) this rank has: per piece one row for each id, zeros where the rank
// has it not. An id is below `table_rows`; 0: -1 may stand for no row.
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
// Rows of a table replaced, where ids are as SumRows leaves them; beyond a gate's limit none is.
struct PutRows {
  Span table, ids, rows;
  int64_t width = 0;
  std::vector<Span> gates, limits;  // as those of UpdateTensors
  bool operator==(const PutRows&) const = default;
};

// words = the exact sum of the doubles, as integers that ranks can add; norm = the root of such words.
struct SumSquares {
  std::vector<Span> addends;
  Span words;
  bool operator==(const SumSquares&) const = default;
};
struct NormOfWords {
  Span words, norm;
  bool operator==(const NormOfWords&) const = default;
};

// Per part the sum of its 64-bit words, wrapping, where `wanted` is not 0: what replicas are compared by.
struct ChecksumSpans {
  std::vector<Span> parts;
  Span sums, wanted;
  bool operator==(const ChecksumSpans&) const = default;
};
// Hands an output of the body to whoever looks at it; of inspections.
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
  int micro_batch = -1;  // of the step, over all ranks; -1: once
  int stage = 0;         // of a pipeline
  SourceLine at;         // the user's line; none for what belongs to no line
};

// A value of the step that its caller reads: a metric, or the norm or loss that decides about updates.
struct StepOutput {
  std::string name;  // of a metric; "" of a gate
  Span at;
  DType dtype = DType::f32;
};

// Places in StepProgram::blocks.
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
  std::vector<Instr> refresh;  // before the first step, and after somebody else wrote the state
  std::vector<Instr> instrs;   // each step
  int flights = 0;
  std::vector<StepOutput> metrics, gates;
  std::vector<Span> updated;      // rows of the state that updates replace
  std::vector<Span> put;          // sparse tables and their moments: a step replaces rows of each
  Span votes;                     // two i64, summed over the ranks: of stopping, and the word about replicas
  std::vector<Replica> replicas;  // in the order of ChecksumSpans::parts
  int64_t rank = 0;
  std::string mesh;  // in words
  int64_t micro_batches = 1, lanes = 1;

  // The region of this kind and name; not there: none.
  Span find(Region::Kind kind, const std::string& region) const;
  Span whole(int region) const { return {region, 0, regions[region].bytes}; }
};

// What an instruction reads and writes; of a block's calls, each argument. A start reads `from` and writes
// `to`; its wait does neither.
struct Access {
  std::vector<Span> reads, writes;
};
Access access_of(const StepProgram& program, const Instr& instr);
// Where an argument of a block's call lies in a run of it.
Span span_of(const RunBlock& run, const BlockPlace& at, int64_t bytes);
Span output_of(const ProgramBlock& block, const RunBlock& run, size_t output);

// The collective that a block's call starts along its model dim of `ranks`; no flight and no spans.
StartCollective start_of(const ProgramBlock& block, const BlockCall& call, int64_t ranks);

std::string_view name(Region::Kind kind);
std::string_view name(StartCollective::Verb verb);
// Bytes that leave this rank, `self` of the members; an all_reduce counts as a ring's.
int64_t sent_bytes(const StartCollective& start, int64_t members, int64_t self);

}  // namespace lockstep::compiler
