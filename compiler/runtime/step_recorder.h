// StepRecorder: time marks around everything that a step enqueues on its compute stream, and at the starts
// and ends of its collectives. A traced step runs call by call, without waits.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/words/program.h"
#include "compiler/runtime/collectives.h"
#include "core/base/steady_seconds.h"
#include "core/device/device.h"

namespace lockstep::compiler {

// The trace of a step. Seconds since its begin on the compute stream.
struct TracedStep {
  struct Span {
    std::string name;  // "body", "dot 4096x384x1152", "wait for exchange 0"
    std::string kind;  // of an instruction: "run", "wait", "update", ...; of a call: its family, or "start",
                       // "wait"
    std::string op;    // of a call: its node's op
    SourceLine at;     // the user's line and layer
    double begin = 0, end = 0;
    int instr = 0, call = -1;  // of the program; of its block, within the instruction's span
    int micro_batch = -1;
    double flops = 0;
    int64_t bytes = 0;  // read and written
  };
  struct Flight {
    std::string along, verb, label;
    int64_t bytes = 0;  // bytes that this rank sends
    double begin = 0;   // when the stream reached its start
    std::optional<double> end;
    int micro_batch = -1;
  };
  struct HostSpan {
    std::string name;
    double begin = 0, end = 0;  // by the steady clock
  };
  int64_t step = 0;
  double at = 0;            // when it began, by the steady clock
  double seconds = 0;       // until all its enqueued work had run
  std::vector<Span> spans;  // in the order of enqueueing: an instruction, then its calls
  std::vector<Flight> flights;
  std::vector<HostSpan> host;
};

class StepRecorder {
 public:
  explicit StepRecorder(Stream& stream);
  void enter(int instr, Stream& stream);  // of the program
  void enter_call(int call, Stream& stream);
  void leave(Stream& stream);  // leaves the innermost entry
  // Call right after the start of a collective. If several gathers are launched together, the last one marks
  // the end of all.
  void started(const BoundCollective& what, std::shared_ptr<Work> work, Stream& stream);
  void host(const std::string& name, double begin, double end) { host_.push_back({name, begin, end}); }
  // Call after everything has run.
  TracedStep resolve(const StepProgram& program, int64_t step) const;

 private:
  struct Entry {
    int instr, call;
    std::shared_ptr<Mark> begin, end;
  };
  struct Flight {
    TracedStep::Flight said;
    int instr;
    std::shared_ptr<Mark> begin, end;
  };
  double at_;
  std::shared_ptr<Mark> begin_, end_;
  std::vector<Entry> entries_;
  std::vector<size_t> open_;
  std::vector<Flight> flights_;
  std::vector<std::pair<size_t, std::shared_ptr<Work>>> joined_;  // flights of the next launch
  std::vector<TracedStep::HostSpan> host_;
};

}  // namespace lockstep::compiler
