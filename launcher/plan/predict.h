// Predicts the time of a planned step from a roofline, and how much of its communication is exposed.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/timeline.h"
#include "launcher/trainer/dry_run.h"

namespace lockstep::launcher {

// The collectives of one kind along the same mesh dims, or the copies of one way between device and host, in
// a step, on the fullest rank.
struct TrafficRow {
  std::string dims;  // "dp_replicate"; "dp_replicate x dp_shard"
  std::string op;    // "all_gather", "lane_exchange", ...
  int64_t count = 0;
  int64_t bytes = 0;     // that the rank sends
  double seconds = 0;    // transfer time by the roofline's links
  double exposed_s = 0;  // of these: while nothing computes
};

// The parts of a step's time in seconds; they add up to the step.
struct TimeShares {
  double arithmetic = 0, memory = 0, launches = 0, exposed = 0;
};

struct Prediction {
  std::string roofline, measured_on;
  bool beyond_node = false;   // more ranks than the measured node has: figures for traffic between nodes are
                              // not measured
  int64_t micro_batches = 0;  // of the fullest rank
  double body_s = 0;  // one micro-batch, forward and backward, and its addition to the sums; on average
  double once_s = 0;  // counts, work on weights only, sums over lanes, update
  std::vector<TrafficRow> traffic;
  double exposed_s = 0;         // of all collectives and copies
  double copies_s = 0;          // of these: copies between host and device
  double step_s = 0;            // micro_batches * body_s + once_s + exposed_s
  std::string unit = "tokens";  // or "samples": see tasks::pace_unit
  double units_per_s = 0;       // of all ranks
  double flops_per_s = 0;       // of contractions and attention, per rank, on average
  double peak_flops_per_s = 0;  // of a rank's dense products in train.precision, by the roofline
  TimeShares shares;
};

// {"tokens", of a step} or {"samples", ...}: see tasks::pace_unit.
using StepUnits = std::pair<std::string, int64_t>;
StepUnits units_of_step(const RunConfig& config);
// The roofline as a rank of the step has it.
Roofline roofline_of_rank(const Roofline& roofline, const Mesh& mesh, const PaperStep& step);
// The prediction for a planned step on a mesh. The traffic has a row for each kind of collective even where
// the step has no calls that can be predicted (the reference backend): then every time but those of links is
// 0.
Prediction predict(const RunConfig& config, const StepUnits& units, const Mesh& mesh, const PaperStep& step,
                   const Roofline& roofline);
inline Prediction predict(const RunConfig& config, const Mesh& mesh, const PaperStep& step,
                          const Roofline& roofline) {
  return predict(config, units_of_step(config), mesh, step, roofline);
}

// "predicted 117 ms, measured 121 ms a step (roofline cpu)"; the words of a prediction across nodes follow.
std::string predicted_and_measured(const Prediction& prediction, double measured_s);
std::string seconds_text(double seconds);  // "117 ms", "1.24 s", "35 us": three figures

}  // namespace lockstep::launcher
