// ProgramBlock: a lowered graph as an ordered list of calls, over slots of planned memory. It is planned once
// and runs for many micro-batches. It is only data: it has no device and no group.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/pass/pass.h"
#include "compiler/schedule/gathers.h"

namespace lockstep::compiler {

class LibraryCall;

// The place of a call's argument: in an input of the graph, or in an arena.
struct BlockPlace {
  enum Base { own_arena = -1, shared_arena = -2 };  // of the micro-batch that runs; shared by all, in turns
  int base = own_arena;                             // or the number of a graph input
  int64_t offset = 0;                               // bytes
  bool operator==(const BlockPlace&) const = default;
};

struct BlockCall {
  enum class Kind {
    kernel,    // generated: `name`
    library,   // prepared: `library`; `name` is its algorithm
    evaluate,  // a node of a graph that is not lowered, by the reference evaluator
    start,     // of a collective along a model dim: reads args[0], and writes args[1] until its wait
    wait,      // for the start with the same `flight`
  };
  Kind kind = Kind::kernel;
  std::string name;
  std::shared_ptr<LibraryCall> library;
  std::vector<BlockPlace> args;  // inputs, then outputs
  size_t inputs = 0;
  std::vector<int64_t> begins;  // byte offset of a kernel's argument from the input; empty: none
  size_t workspace_bytes = 0;
  BlockPlace workspace;
  NodeId node;         // of the graph
  int flight = -1;     // of a start or wait: the number of the flight (an operation in progress) in the block
  std::string what;    // for display: "dot 4096x384x1152", "add,tanh"
  std::string family;  // "contraction", "float8", "convolution", "attention", "kernel", "rows", "collective",
                       // "evaluated"
  double flops = 0;    // of one run
  int64_t bytes = 0;   // that one run reads and writes
};

// A value that waits in host memory between two of its uses. Each of the four members is the call before
// which the action happens.
struct AwayValue {
  int leaves = 0;                 // its copy to the host starts
  int gone = 0;                   // its copy is waited for: its place is then free
  int comes = 0;                  // its copy to the device starts, to a new place
  int back = 0;                   // its copy is waited for: a call reads it
  BlockPlace from = {}, to = {};  // in the arena, before and after
  int64_t at = 0;                 // in host memory, bytes
  int64_t bytes = 0;
  NodeId node;  // the node of the graph that made it
  bool operator==(const AwayValue&) const = default;
};

// The input of plan_block.
struct BlockSource {
  Graph graph;                                // lowered: fused nodes, library ops, views; reference: any
  std::vector<std::vector<int>> groups = {};  // of outputs that leave the block while it runs
  bool keeps = false;                         // groups are read in place, after the block's end
  std::vector<int> streamed = {};             // inputs that are gathered while it runs
  GatherOptions gather = {};
  int64_t micro_batches = 1;  // the most that run part by part at once
  bool together = false;      // or call by call (RunBlock::micro_batches): they share whole weights
  // Bytes to which copies to the host reduce its arenas, as nearly as they can; 0: no copies.
  int64_t within = 0;
};

// Values are stored in one arena. If several micro-batches run part by part (BlockSource::micro_batches),
// values that outlive a part are in an arena per micro-batch. The rest, with whole weights and workspaces, is
// in one shared arena that they use in turns.
struct ProgramBlock {
  Graph graph;
  std::vector<std::vector<int>> groups;
  std::vector<BlockCall> calls;
  std::vector<BlockPlace> outputs;  // dense
  std::vector<int> ready;  // per group: the call after which it and those before it are ready; -1: at once
  GatherPlan gathers;      // of the streamed inputs
  std::vector<BlockPlace> segment_at;  // per segment of it: the place of the whole weight
  int64_t micro_batches = 1;
  int64_t own_bytes = 0, shared_bytes = 0;  // of the arenas
  int64_t floor = 0;                        // bytes of live values at the fullest call
  // In the order in which they leave ("away": waiting in host memory).
  std::vector<AwayValue> away;
  int64_t host_bytes = 0;  // in host memory, for each micro-batch that runs at once
  double stall = 0;        // seconds of one run in which calls wait for copies, by CompileOptions::travel

  int64_t arena_bytes() const { return micro_batches * own_bytes + shared_bytes; }
  const BlockCall& start_of(int flight) const;  // a collective's
  int64_t away_bytes() const;                   // bytes that one run copies to the host and back
  double flops() const;                         // of the contractions, convolutions and attention of one run
  std::string algorithms() const;  // kernels and library algorithms in order, for the certificate
  std::string text() const;        // a line per call
};

// InternalError for a graph that is not lowered for the options' target.
ProgramBlock plan_block(BlockSource source, const CompileOptions& options);

// Seconds of a call by the rates of a device; 0 for a start or wait.
double seconds_of(const BlockCall& call, const TravelRates& rates);
// Bytes that a kernel reads of an input: all of it, or the parts and rows that it takes.
int64_t bytes_read(const Graph& body, size_t input);
// "add,tanh": the ops of a fused node that compute something.
std::string fused_text(const Graph& body);

}  // namespace lockstep::compiler
