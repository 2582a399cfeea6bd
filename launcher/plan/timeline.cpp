// Timeline: one pass over the instructions, with a clock for computation and one per link.
#include "launcher/plan/timeline.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/error.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
class Clocks {
 public:
  Clocks(const StepProgram& program, const TimelineOptions& options) : program_(program), options_(options) {
    for (const ProgramBlock& block : program.blocks) {
      auto& until = out_.until.emplace_back(1, 0.0);
      for (double seconds : call_seconds(block.calls, options.precision, options.roofline))
        until.push_back(until.back() + seconds);
      auto& collectives = collectives_.emplace_back();
      for (size_t c = 0; c < block.calls.size(); ++c)
        if (is_collective(block.calls[c])) collectives.push_back(static_cast<int>(c));
    }
    flight_of_.assign(program.flights, -1);
  }

  Timeline run() {
    for (at_ = 0; at_ < program_.instrs.size(); ++at_) step(program_.instrs[at_]);
    out_.end = now_;
    for (const auto& flight : out_.flights) out_.end = std::max(out_.end, flight.end);
    return std::move(out_);
  }

 private:
  struct Link {
    GroupShape shape;
    Members members;
    double free = 0;
    int last = -1;  // flight
  };
  static bool is_collective(const BlockCall& call) {
    return call.kind == BlockCall::Kind::start || call.kind == BlockCall::Kind::wait;
  }

  void step(const Instr& instr) {
    if (const auto* start = std::get_if<StartCollective>(&instr.what)) {
      Link& link = link_of(start->along);
      flight_of_[start->flight] =
          static_cast<int>(leave(link, transfer_of(*start, link.members), instr.micro_batch, starts_++));
      return;
    }
    last_started_ = -1;
    if (const auto* start = std::get_if<StartCopies>(&instr.what)) return copies(*start);
    if (const auto* run = std::get_if<RunBlock>(&instr.what)) {
      run_block(*run, instr.micro_batch);
    } else if (const auto* wait = std::get_if<Wait>(&instr.what)) {
      if (flight_of_[wait->flight] >= 0) arrive(flight_of_[wait->flight]);
    } else if (std::holds_alternative<ChecksumSpans>(instr.what)) {
      compute(options_.roofline.launch, 0, 0);  // most steps do not use them
    } else if (const int64_t bytes = touched_bytes(program_, instr)) {
      compute(static_cast<double>(bytes) / options_.roofline.memory + options_.roofline.launch, 0, 0);
    }
  }
  // If device and host share one memory, copies stall computation.
  void copies(const StartCopies& start) {
    const LinkSpeed& host = options_.roofline.host;
    if (host.bandwidth <= 0)
      return compute(
          2 * static_cast<double>(start.bytes()) / options_.roofline.memory + options_.roofline.launch, 0, 0);
    const std::string way(start.to_host ? kToHost : kToDevice);
    Link& link = links_[way];
    Timeline::Flight flight{.sent = start.bytes()};
    flight.route = route_of({.along = way, .op = "copies", .name = start.label});
    flight.begin = std::max(now_, link.free);
    link.free = flight.end = flight.begin + host.latency + static_cast<double>(flight.sent) / host.bandwidth;
    flight_of_[start.flight] = static_cast<int>(out_.flights.size());
    out_.flights.push_back(flight);
  }
  // Walks the block's collectives in call order. Computation between two of them advances the clock in one
  // go, a start occupies its link, and a wait moves the clock to the end of the transfer.
  void run_block(const RunBlock& run, int micro_batch) {
    const ProgramBlock& block = program_.blocks[run.block];
    const auto& until = out_.until[run.block];
    int from = run.first;
    auto up_to = [&](int call) {
      if (call > from)
        compute(static_cast<double>(run.micro_batches) * (until[call] - until[from]), from, call);
      from = call;
    };
    const auto& all = collectives_[run.block];
    for (auto c = std::lower_bound(all.begin(), all.end(), run.first); c != all.end() && *c < run.last; ++c) {
      const BlockCall& call = block.calls[*c];
      up_to(*c);
      from = *c + 1;
      size_t& flight = inside_[{run.block, call.flight}];
      if (call.kind == BlockCall::Kind::wait) {
        arrive(flight);
      } else {
        Link& link = link_of(mesh_dim_of(block, call));
        flight = leave(link, transfer_of(block, call, link.members), micro_batch, -1);
      }
    }
    up_to(run.last);
  }
  void compute(double seconds, int first, int last) {
    out_.work.push_back({now_, now_ + seconds, at_, first, last});
    now_ += seconds;
  }

  size_t leave(Link& link, Transfer transfer, int micro_batch, int start) {
    Timeline::Flight flight{.micro_batch = micro_batch, .sent = transfer.sent, .start = start};
    const int64_t bytes = std::max(transfer.sent, transfer.received);
    flight.route = route_of(std::move(transfer));
    if (link.last >= 0) {
      const auto& before = out_.flights[link.last];
      flight.goes_on = before.route == flight.route && before.micro_batch == micro_batch &&
                       last_started_ == link.last && start >= 0;
    }
    flight.begin = std::max(now_, link.free);
    flight.end = flight.begin + travel_seconds(bytes, link.shape, options_.roofline);
    if (flight.goes_on && link.free >= now_) flight.end -= travel_seconds(0, link.shape, options_.roofline);
    link.free = flight.end;
    link.last = last_started_ = static_cast<int>(out_.flights.size());
    out_.flights.push_back(flight);
    return out_.flights.size() - 1;
  }
  // The time from now to the end of the transfer is a stall, and is exposed. A finished transfer costs
  // nothing.
  void arrive(size_t number) {
    auto& flight = out_.flights[number];
    if (flight.end <= now_) return;
    out_.stalls.push_back({now_, flight.end, number});
    flight.exposed += flight.end - now_;
    now_ = flight.end;
  }

  size_t route_of(Transfer transfer) {
    auto [found, added] =
        routes_.try_emplace({transfer.along, transfer.op, transfer.name}, out_.routes.size());
    if (added)
      out_.routes.push_back({std::move(transfer.along), std::move(transfer.op), std::move(transfer.name)});
    return found->second;
  }
  Link& link_of(const std::string& along) {
    auto [found, added] = links_.try_emplace(along);
    if (added)
      found->second = {link_shape(along, options_.mesh, options_.seats, options_.roofline.ranks_per_node),
                       members_of(along, options_.mesh, program_.rank, options_.seats)};
    return found->second;
  }

  const StepProgram& program_;
  const TimelineOptions& options_;
  std::vector<std::vector<int>> collectives_;  // per block: calls that start one or wait for one
  std::map<std::string, Link> links_;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> routes_;
  // per flight (transfer) of the program; -1: takes no time of its own
  std::vector<int> flight_of_;
  std::map<std::pair<int, int>, size_t> inside_;  // of a block's flight
  Timeline out_;
  double now_ = 0;
  size_t at_ = 0;
  int starts_ = 0, last_started_ = -1;
};
}  // namespace

std::vector<CallCost> call_costs(const std::vector<BlockCall>& calls, const std::string& precision,
                                 const Roofline& roofline) {
  // Under float8 other products are in bf16.
  const double products = products_rate(roofline, precision == "float8" ? "bf16" : precision);
  const double attention = roofline.attention.empty() ? products : rate_of(roofline.attention, precision);
  std::vector<CallCost> out;
  for (const BlockCall& call : calls) {
    const bool computes = call.kind != BlockCall::Kind::start && call.kind != BlockCall::Kind::wait;
    const bool product = call.family != "kernel" && call.family != "rows";
    const double rate = !product                     ? roofline.kernels
                        : call.family == "attention" ? attention
                        : call.family == "float8"    ? products_rate(roofline, "float8")
                                                     : products;
    const double computing = rate > 0 ? call.flops / rate : 0,
                 moving = static_cast<double>(call.bytes) / roofline.memory;
    CallCost& cost = out.emplace_back();
    if (computes) (computing > moving ? cost.arithmetic : cost.memory) = std::max(computing, moving);
    if (computes) cost.launch = roofline.launch;
  }
  return out;
}
std::vector<double> call_seconds(const std::vector<BlockCall>& calls, const std::string& precision,
                                 const Roofline& roofline) {
  std::vector<double> out;
  for (const CallCost& cost : call_costs(calls, precision, roofline)) out.push_back(cost.seconds());
  return out;
}

bool in_micro_batch(const StepProgram& program, const Instr& instr) {
  if (instr.micro_batch < 0 || std::holds_alternative<AddCounts>(instr.what)) return false;
  // Row ids are stored in the order of counting.
  if (const auto* copy = std::get_if<CopySpans>(&instr.what); copy && !copy->copies.empty()) {
    const Region& to = program.regions[copy->copies[0].to.region];
    if (to.kind == Region::Kind::staging && to.name.starts_with("ids ")) return false;
  }
  const auto* run = std::get_if<RunBlock>(&instr.what);
  return !run || program.block_names[run->block] == "body";
}

Timeline timeline_of(const StepProgram& program, const TimelineOptions& options) {
  return Clocks(program, options).run();
}

}  // namespace lockstep::launcher
