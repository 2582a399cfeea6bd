// Profile: turns a step's records into rows of spans.
#include "launcher/loop/profile.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "compiler/program/show/folds.h"
#include "core/base/error.h"
#include "core/mesh/group.h"
#include "distributed/watch/flight_record.h"
#include "launcher/supervise/folders/run.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
// "rank 3: dp_replicate 1, tp 1".
std::string place_of(const LiveMesh& mesh) {
  const int rank = mesh.world->rank();
  std::vector<std::string> parts;
  int64_t below = mesh.words.size();
  for (int d = 0; d < mesh.words.ndim(); ++d) {
    below /= mesh.words.shape[d];
    parts.push_back(str(mesh.words.dim_names[d], " ", rank / below % mesh.words.shape[d]));
  }
  return str("rank ", rank, parts.empty() ? "" : ": ", join(parts, ", "));
}

// BEGINNING.json, or BEGINNING.K.json where that is there already: whose it is, no trace tells.
std::string free_trace(const std::string& beginning) {
  std::string out = beginning + ".json";
  std::error_code unknown;
  for (int k = 1;
       std::filesystem::symlink_status(out, unknown).type() != std::filesystem::file_type::not_found; ++k)
    out = str(beginning, ".", k, ".json");
  return out;
}

Json args_of(const TracedStep::Span& span) {
  Json out = Json::object();
  if (!span.op.empty()) out["op"] = span.op;
  if (!span.at.scope.empty()) out["layer"] = span.at.scope;
  if (!span.at.file.empty()) out["line"] = str(span.at.file, ":", span.at.line);
  if (span.micro_batch >= 0) out["micro_batch"] = span.micro_batch;
  if (span.flops > 0) out["flops"] = span.flops;
  if (span.bytes > 0) out["bytes"] = span.bytes;
  const double seconds = span.end - span.begin;
  if (span.flops > 0 && seconds > 0) out["GFLOP/s"] = std::round(span.flops / seconds / 1e6) / 1e3;
  return out;
}
}  // namespace

void fill_ends(TracedStep& step) {
  std::vector<distributed::FlightEntry> entries;
  if (auto recorder = distributed::flight_recorder())
    entries = distributed::read_flight_log(recorder->path()).entries;
  for (auto& flight : step.flights) {
    if (flight.end) continue;
    // Its row was opened right before its start mark.
    for (const auto& entry : entries) {
      const double began = static_cast<double>(entry.start_ns) * 1e-9 - step.at;
      if (entry.end_ns && flight.label.starts_with(entry.label) && began <= flight.begin + 1e-6 &&
          began > flight.begin - 0.02)
        flight.end = static_cast<double>(entry.end_ns) * 1e-9 - step.at;
    }
    if (flight.end) continue;
    for (const auto& span : step.spans)
      if (!flight.end && span.kind == "wait" && span.begin >= flight.begin &&
          (span.call >= 0 || span.name == "wait for " + flight.label))
        flight.end = span.end;
    if (!flight.end) flight.end = step.seconds;
  }
}

Profile::Profile(ProfileOptions options, const LiveMesh& mesh)
    : options_(std::move(options)), mesh_(mesh), from_(1), to_(0) {
  if (options_.steps <= 0) return;
  from_ = std::min(options_.first + 2, options_.last);
  to_ = std::min(from_ + options_.steps - 1, options_.last);
  if (mesh.world->rank() >= kTracedRanks) return;
  trace_ = std::make_unique<ChromeTrace>(mesh.world->rank(), place_of(mesh));
  for (const char* row : {"steps", "host", "compute"}) trace_->row(row);
}

void Profile::begin(int64_t step) {
  if (step == from_) {
    barrier(*mesh_.world, "begin of a trace");
    origin_ = steady_seconds();
  }
  began_ = steady_seconds();
}

void Profile::add(const StepResult& result, const Step& step) {
  ran_ = steady_seconds();
  if (!trace_) return;
  LS_CHECK(result.traced, "a step that was to be traced");
  const TracedStep& traced = *result.traced;
  add_spans(traced, first_backward_call(step.plan(), step.program().blocks[kBodyBlock]));
  add_flights(traced);
  for (const auto& phase : traced.host)
    trace_->span("host", phase.name, "host", phase.begin - origin_, phase.end - origin_,
                 {{"step", traced.step}});
}

void Profile::add_spans(const TracedStep& step, int first_backward) {
  const double at = step.at - origin_;
  trace_->span("compute", str("step ", step.step), "step", at, at + step.seconds, {{"step", step.step}});
  std::string block;
  for (const auto& span : step.spans) {
    if (span.call < 0) block = span.name;
    const std::string category = span.call < 0 || block != "body" ? span.kind
                                 : span.kind == "wait"            ? "wait"
                                 : span.call < first_backward     ? "forward"
                                                                  : "backward";
    const std::string name = span.call < 0 && span.kind == "run" && span.micro_batch >= 0
                                 ? str(span.name, " of micro-batch ", span.micro_batch)
                                 : span.name;
    trace_->span("compute", name, category, at + span.begin, at + span.end, args_of(span));
  }
}

void Profile::add_flights(TracedStep step) {
  fill_ends(step);
  const double at = step.at - origin_;
  for (const auto& flight : step.flights) {
    Json args{{"collective", flight.verb}, {"along", flight.along}, {"bytes", flight.bytes}};
    if (flight.micro_batch >= 0) args["micro_batch"] = flight.micro_batch;
    const double seconds = *flight.end - flight.begin;
    if (flight.bytes > 0 && seconds > 0)
      args["GB/s"] = std::round(static_cast<double>(flight.bytes) / seconds / 1e6) / 1e3;
    trace_->free_span("collectives along " + flight.along, flight.label, flight.verb, at + flight.begin,
                      at + std::max(flight.begin, *flight.end), args);
  }
}

std::string Profile::end(int64_t step, bool last) {
  const double now = steady_seconds();
  if (trace_) {
    trace_->span("host", "report, save", "host", ran_ - origin_, now - origin_, {{"step", step}});
    trace_->span("steps", str("step ", step), "step", began_ - origin_, now - origin_);
  }
  if (step < to_ && !last) return "";
  const auto events = all_gather_text(*mesh_.world, trace_ ? trace_->events() : std::string());
  trace_.reset();
  const int64_t from = from_;
  from_ = 1, to_ = 0;
  if (mesh_.world->rank() != 0) return "";
  const std::string path = free_trace(str(options_.dir, "/trace-", from, "-", step));
  write_whole(path, ChromeTrace::document(events, {{"run", options_.name},
                                                   {"mesh", text(mesh_.words)},
                                                   {"ranks", mesh_.words.size()},
                                                   {"steps", {from, step}}}));
  return path;
}

}  // namespace lockstep::launcher
