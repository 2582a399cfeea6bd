// Timeline: simulates a step's program with a roofline, with one clock for computation and one per link. It
// is the basis of trainrun's predictions and drawings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/show/folds.h"
#include "launcher/machine/roofline.h"
#include "launcher/plan/links.h"

namespace lockstep::launcher {

// Route::along of copies between the memories of host and device.
inline constexpr std::string_view kToDevice = "the way to the device", kToHost = "the way to the host";

struct Timeline {
  // Computing instructions in order; the run of a block is split where it waits.
  struct Work {
    double begin = 0, end = 0;
    size_t instr = 0;         // of the program
    int first = 0, last = 0;  // of a block: its calls
  };
  // Transfers of the same kind: the same collective in each micro-batch.
  struct Route {
    std::string along, op, name;
  };
  struct Flight {
    size_t route = 0;
    int micro_batch = -1;
    double begin = 0, end = 0;  // on its link
    double exposed = 0;         // of these: while computation waited for it
    int64_t sent = 0;           // bytes, to other ranks
    int start = -1;             // index of the program's StartCollective; -1: inside a block
    bool goes_on = false;       // continues the previous one on its link
  };
  // Computation waits for a flight (a transfer in progress).
  struct Stall {
    double begin = 0, end = 0;
    size_t flight = 0;
  };
  std::vector<Work> work;
  std::vector<Route> routes;
  std::vector<Flight> flights;  // in order of their starts
  std::vector<Stall> stalls;
  std::vector<std::vector<double>> until;  // per block: seconds of the calls before each, and of all
  double end = 0;
};

// Whether an instruction computes a micro-batch or accumulates its gradients; counts and earlier rows of
// sparse tables are excluded.
bool in_micro_batch(const compiler::StepProgram& program, const compiler::Instr& instr);

// The parts of a call's time: arithmetic at the roofline's rate or memory traffic, whichever is longer (the
// other is 0); and its launch.
struct CallCost {
  double arithmetic = 0, memory = 0, launch = 0;
  double seconds() const { return arithmetic + memory + launch; }
};
// For each call of a block; 0 for starts and waits.
std::vector<CallCost> call_costs(const std::vector<compiler::BlockCall>& calls, const std::string& precision,
                                 const Roofline& roofline);
std::vector<double> call_seconds(const std::vector<compiler::BlockCall>& calls, const std::string& precision,
                                 const Roofline& roofline);

// The program of rank `program.rank` of `mesh`, its hosts and the rates of its device. A collective begins
// when computation reaches its start and its link is free. Further parts of a collective, and following ones
// in a row of the same name, add no latency.
struct TimelineOptions {
  const Mesh& mesh;
  int seats = 0;  // as ProgramRank
  const Roofline& roofline;
  std::string precision;
};
Timeline timeline_of(const compiler::StepProgram& program, const TimelineOptions& options);

}  // namespace lockstep::launcher
