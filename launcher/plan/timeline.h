// Timeline: a step's program by a roofline's clocks, one for what is computed and one for each link. What
// trainrun predicts, and what it draws.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/folds.h"
#include "launcher/machine/roofline.h"
#include "launcher/plan/links.h"

namespace lockstep::launcher {

// Route::along of copies between the memories of host and device.
inline constexpr std::string_view kToDevice = "the way to the device", kToHost = "the way to the host";

struct Timeline {
  // Instructions that compute, in order; a run of a block is cut where it waits.
  struct Work {
    double begin = 0, end = 0;
    size_t instr = 0;         // of the program
    int first = 0, last = 0;  // of a block: its calls
  };
  // What travels alike: the same collective of each micro-batch.
  struct Route {
    std::string along, op, name;
  };
  struct Flight {
    size_t route = 0;
    int micro_batch = -1;
    double begin = 0, end = 0;  // on its link
    double exposed = 0;         // of these: while what is computed stood still for it
    int64_t sent = 0;           // bytes, to other ranks
    int start = -1;             // of the program's own: which of its StartCollectives; -1: inside of a block
    bool goes_on = false;       // a further part of the one before it on its link
  };
  // What is computed stands still for a flight.
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

// Whether an instruction computes a micro-batch or adds up its gradients; counts, and rows of
// sparse tables that come before, are not of it.
bool in_micro_batch(const compiler::StepProgram& program, const compiler::Instr& instr);

// What a call takes its time for: what it computes at the roofline's rate, or what it reads and writes at the
// memory's, whichever takes longer (the other is 0); and its launch.
struct CallCost {
  double arithmetic = 0, memory = 0, launch = 0;
  double seconds() const { return arithmetic + memory + launch; }
};
// Of each call of a block; of starts and waits 0.
std::vector<CallCost> call_costs(const std::vector<compiler::BlockCall>& calls, const std::string& precision,
                                 const Roofline& roofline);
std::vector<double> call_seconds(const std::vector<compiler::BlockCall>& calls, const std::string& precision,
                                 const Roofline& roofline);

// The program of rank `program.rank` of `mesh`, its hosts and the rates of its device. A collective begins
// when what is computed comes to its start and its link is free. Further parts of a collective, and those
// that stand behind it in a row under its name, take no latency of their own.
struct TimelineOptions {
  const Mesh& mesh;
  int seats = 0;  // as ProgramRank
  const Roofline& roofline;
  std::string precision;
};
Timeline timeline_of(const compiler::StepProgram& program, const TimelineOptions& options);

}  // namespace lockstep::launcher
