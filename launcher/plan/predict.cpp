// Calls, links and sums, added up to a step.
#include "launcher/plan/predict.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "core/base/text.h"
#include "core/ops/op.h"

namespace lockstep {

namespace {
double rate_of(const std::map<std::string, double>& rates, const std::string& precision) {
  if (rates.empty()) return 0;
  if (auto found = rates.find(precision); found != rates.end()) return found->second;
  if (auto found = rates.find("fp32"); found != rates.end()) return found->second;
  return rates.begin()->second;
}
double total(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

int64_t local_bytes(const Value& value, const Mesh& mesh) {
  return numel(padded_local_shape(value.layout, mesh, value.shape)) *
         static_cast<int64_t>(size_of(value.dtype));
}

// The additions around the exchange, on the first data rank: seconds per micro-batch for each bucket, and of
// the last sums.
struct Sums {
  std::vector<double> per_micro_batch;
  double last = 0;
};
Sums sums_of(const PaperStep& step, int64_t micro_batches, const Roofline& roofline) {
  const StepPlan& plan = step.plan;
  const LanePlan lanes{plan.micro_batches, plan.lanes, step.ranks, 0, plan.order};
  int64_t sources = 0;
  for (int r = 0; r < step.ranks; ++r) sources += static_cast<int64_t>(lanes.blocks(r).size());
  int64_t kept = static_cast<int64_t>(lanes.blocks(0).size());
  if (!plan.options.invariant) sources = kept = 1;
  // A gradient is read and a partial written (in rounds what travels), and of all but the ones that stay a
  // partial is read too.
  const double again = micro_batches > kept
                           ? static_cast<double>(micro_batches - kept) / static_cast<double>(micro_batches)
                           : 0;
  const bool as_it_is = plan.options.invariant && plan.order == LaneOrder::interleaved && step.ranks > 1;
  Sums out;
  for (const auto& bucket : plan.phases.buckets) {
    int64_t elements = 0, given = 0;  // given: bytes
    for (int output : bucket) {
      const Value& value = plan.body[plan.body.outputs[output].value];
      elements += numel(value.shape);
      given += numel(value.shape) * static_cast<int64_t>(size_of(value.dtype));
    }
    const double bytes = static_cast<double>(elements) * sizeof(float), read = static_cast<double>(given);
    out.per_micro_batch.push_back((read + (as_it_is ? read : bytes) + bytes * again) / roofline.memory +
                                  roofline.launch);
    out.last += bytes / step.ranks * static_cast<double>(sources + 1) / roofline.memory + roofline.launch;
  }
  return out;
}

double update_seconds(const StepPlan& plan, const Mesh& mesh, const Roofline& roofline) {
  int64_t bytes = 0;
  for (const Node& node : plan.phases.whole.nodes)
    if (op_row(node.op).kind == OpKind::update) {
      for (ValueId v : node.inputs) bytes += local_bytes(plan.phases.whole[v], mesh);
      for (ValueId v : node.outputs) bytes += local_bytes(plan.phases.whole[v], mesh);
    }
  return static_cast<double>(bytes) / roofline.memory + (bytes ? roofline.launch : 0);
}
}  // namespace

std::vector<double> call_seconds(const std::vector<CallTime>& calls, const std::string& precision,
                                 const Roofline& roofline) {
  const double products = rate_of(roofline.contraction, precision);
  const double attention = roofline.attention.empty() ? products : rate_of(roofline.attention, precision);
  std::vector<double> out;
  for (const CallTime& call : calls) {
    const double rate = call.kind == "attention" ? attention : products;
    out.push_back(std::max(call.flops / rate, static_cast<double>(call.bytes) / roofline.memory) +
                  roofline.launch);
  }
  return out;
}

Prediction predict(const RunConfig& config, const Mesh& mesh, const PaperStep& step, const Roofline& given) {
  const StepPlan& plan = step.plan;
  const std::string& precision = config.train.precision;
  Roofline roofline = given;
  if (step.ranks_per_node) roofline.ranks_per_node = step.ranks_per_node;
  roofline = roofline.for_rank(mesh.size(), plan.options.threads);
  Prediction out;
  out.roofline = roofline.name;
  out.measured_on = roofline.measured_on;
  out.beyond_node = mesh.size() > roofline.ranks_per_node;
  out.micro_batches = LanePlan{plan.micro_batches, plan.lanes, step.ranks, 0, plan.order}.slots(0);

  const auto body = call_seconds(step.executables.body->times(), precision, roofline);
  const Sums sums = sums_of(step, out.micro_batches, roofline);
  out.body_s = total(body) + total(sums.per_micro_batch);
  out.once_s = static_cast<double>(out.micro_batches) *
                   total(call_seconds(step.executables.count->times(), precision, roofline)) +
               total(call_seconds(step.executables.seed->times(), precision, roofline)) + sums.last +
               update_seconds(plan, plan.phases.whole.mesh, roofline);
  for (const auto& fragment : step.executables.fragments)
    out.once_s += total(call_seconds(fragment->times(), precision, roofline));

  // When a bucket is ready, from the start of the body.
  std::vector<double> ready;
  const auto calls = step.executables.body->group_ready();
  double reached = 0;
  size_t done = 0;
  for (size_t b = 0; b < calls.size(); ++b) {
    for (; done < static_cast<size_t>(calls[b]); ++done) reached += body[done];
    reached += sums.per_micro_batch[b];
    ready.push_back(reached);
  }

  std::vector<double> travel;
  int64_t rounds = 1;
  size_t exchange_row = 0;
  auto seconds_of = [&](const Transfer& transfer) {
    if (transfer.across >= 0) return staged_seconds(transfer.bytes, transfer.across, roofline);
    return travel_seconds(transfer.bytes, group_shape(mesh, transfer.dims, roofline.ranks_per_node),
                          roofline);
  };
  // Gradients travel once per step, or in as many rounds as there are micro-batches.
  auto sent = step.sent;
  const int64_t exchanges =
      plan.order == LaneOrder::interleaved ? std::max<int64_t>(1, out.micro_batches) : 1;
  for (int64_t& bytes : sent) bytes /= exchanges;
  size_t exchange = 0;
  for (Transfer transfer : transfers(plan.phases, mesh, sent, out.micro_batches)) {
    if (transfer.moment == Transfer::Moment::exchange) {
      transfer.times = exchanges;
      if (int64_t across = step.sent_across[exchange++]; across >= 0) transfer.across = across / exchanges;
    }
    const double seconds = seconds_of(transfer);
    const std::string dims = dims_text(mesh, transfer.dims);
    auto row = std::find_if(out.traffic.begin(), out.traffic.end(),
                            [&](const auto& r) { return r.dims == dims && r.op == transfer.op; });
    if (row == out.traffic.end()) row = out.traffic.insert(row, {.dims = dims, .op = transfer.op});
    row->count += transfer.times;
    row->bytes += transfer.times * transfer.bytes;
    row->seconds += static_cast<double>(transfer.times) * seconds;
    if (transfer.moment == Transfer::Moment::exchange) {
      travel.push_back(seconds);
      rounds = transfer.times;
      exchange_row = static_cast<size_t>(row - out.traffic.begin());
    } else {
      row->exposed_s += static_cast<double>(transfer.times) * seconds;  // waited for where it stands
    }
  }
  std::vector<double> arrival;
  const bool layers = plan.options.gather == GatherWhen::layers;
  const int64_t gathered = layers ? 1 : out.micro_batches;
  for (const Transfer& gather :
       weight_gathers(plan.phases, step.executables.body->gathers(), mesh, gathered)) {
    arrival.push_back(seconds_of(gather));
    if (arrival.size() == 1) out.traffic.push_back({.dims = dims_text(mesh, gather.dims), .op = gather.op});
    out.traffic.back().count += gather.times;
    out.traffic.back().bytes += gather.times * gather.bytes;
    out.traffic.back().seconds += static_cast<double>(gather.times) * arrival.back();
  }
  if (!arrival.empty()) {
    auto behind = body;  // what computes while a bucket is under way
    for (double& call : behind) call *= layers ? static_cast<double>(out.micro_batches) : 1;
    out.traffic.back().exposed_s =
        static_cast<double>(gathered) * exposed_gathers(step.executables.body->gathers(), behind, arrival);
  }
  if (!travel.empty()) {
    // Layer by layer all rounds of a bucket end together.
    const double together = layers ? static_cast<double>(rounds) : 1;
    for (double& at : ready) at *= together;
    for (double& seconds : travel) seconds *= together;
    out.traffic[exchange_row].exposed_s +=
        ready.size() == travel.size()
            ? exposed_after(ready, travel, together * out.body_s, layers ? 1 : rounds)
            : total(travel);
  }
  std::stable_sort(out.traffic.begin(), out.traffic.end(),
                   [](const auto& a, const auto& b) { return a.dims < b.dims; });
  for (const auto& row : out.traffic) out.exposed_s += row.exposed_s;

  if (body.empty()) {
    out.body_s = out.once_s = 0;
    return out;
  }
  out.step_s = static_cast<double>(out.micro_batches) * out.body_s + out.once_s + out.exposed_s;
  out.tokens_per_s = static_cast<double>(config.batch.global * config.model.context) / out.step_s;
  out.flops_per_s = step.executables.body->flops() * static_cast<double>(plan.micro_batches) /
                    static_cast<double>(step.ranks) / out.step_s;
  return out;
}

std::string seconds_text(double seconds) {
  const double units[] = {1e-6, 1e-3, 1};
  const char* names[] = {"us", "ms", "s"};
  int unit = seconds >= 0.9995 ? 2 : seconds >= 0.9995e-3 ? 1 : 0;
  const double value = seconds / units[unit];
  char text[48];
  std::snprintf(text, sizeof text, "%.*f %s",
                value >= 99.95   ? 0
                : value >= 9.995 ? 1
                : value > 0      ? 2
                                 : 0,
                value, names[unit]);
  return text;
}

std::string predicted_and_measured(const Prediction& prediction, double measured_s) {
  return str("predicted ", seconds_text(prediction.step_s), ", measured ", seconds_text(measured_s),
             " a step (roofline ", prediction.roofline,
             prediction.beyond_node ? ", measured on one node only)" : ")");
}

}  // namespace lockstep
