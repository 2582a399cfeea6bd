// The report as JSON; the schema is at plan_json.
#include "core/base/json.h"
#include "launcher/plan/report.h"

namespace lockstep::launcher {

namespace {
Json tensors_json(const PlanReport& r) {
  Json out = Json::array();
  for (const auto& t : r.tensors)
    out.push_back({{"name", t.name},
                   {"role", t.role},
                   {"type", t.type},
                   {"placements", t.placements},
                   {"count", t.count},
                   {"bytes", t.bytes}});
  return out;
}

// null if the device's needs are unknown.
Json device_json(const PlanReport& r) {
  if (r.needs.parts.empty()) return nullptr;
  Json out;
  out["parts"] = Json::array();
  for (const auto& part : r.needs.parts)
    out["parts"].push_back({{"name", part.name}, {"bytes", part.bytes}, {"bound", part.bound}});
  out["total"] = r.needs.total();
  out["exact"] = r.needs.exact();
  out["on_host"] = r.needs.on_host;
  out["activations_on_host"] = r.needs.away;
  out["evaluation_within"] = r.needs.lent;
  out["available"] = r.available > 0 ? Json(r.available) : Json(nullptr);
  out["fits"] = r.available > 0 ? Json(r.fits()) : Json(nullptr);
  out["nearest"] = nullptr;
  if (r.nearest)
    out["nearest"] = {{"micro", r.nearest->micro},
                      {"ranks", r.nearest->ranks},
                      {"mesh", r.nearest->mesh},
                      {"memory_budget", r.nearest->budget},
                      {"bytes", r.nearest->bytes}};
  out["planned_without"] = r.missing.empty() ? Json(nullptr) : Json(r.missing);
  return out;
}

Json memory_json(const PlanReport& r) {
  Json out = {{"state", r.state},
              {"arena", r.arena},
              {"reduction", r.reduction},
              {"total", r.state + r.arena + r.reduction}};
  out["regions"] = Json::array();
  for (const auto& region : r.regions)
    out["regions"].push_back({{"name", region.name}, {"bytes", region.bytes}});
  out["device"] = device_json(r);
  out["host"] = nullptr;
  if (r.host.bytes)
    out["host"] = {{"ranks", r.host_ranks},
                   {"exact", r.needs.exact() * r.host_ranks},
                   {"available", r.host.bytes},
                   {"source", r.host.source},
                   {"fits", does_not_fit_host(r.name, r.host_ranks, r.needs, r.host).empty()}};
  return out;
}

Json step_json(const PlanReport& r) {
  return {{"micro_batches", r.micro_batches},
          {"micro", r.micro},
          {"lanes", r.lanes},
          {"data_ranks", r.data_ranks},
          {r.unit, r.units},
          {"flops", r.flops},
          {"buckets", r.buckets},
          {"bucket_bytes", r.bucket_bytes},
          {"exchange", r.hosts.empty() ? Json(nullptr) : Json(r.hosts)},
          {"weights_gathered", r.gathers.empty() ? Json(nullptr) : Json(r.gathers)},
          {"tp_pieces", r.tp_pieces},
          {"whole_updates", r.whole_updates.empty() ? Json(nullptr) : Json(r.whole_updates)},
          {"computed_again", r.recomputations.empty() ? Json(nullptr) : Json(r.recomputations)}};
}

Json collectives_json(const PlanReport& r) {
  Json out = Json::array();
  for (const auto& t : r.prediction.traffic)
    out.push_back({{"dims", t.dims},
                   {"op", t.op},
                   {"count", t.count},
                   {"bytes", t.bytes},
                   {"seconds", r.predicted ? Json(t.seconds) : Json(nullptr)},
                   {"exposed", r.predicted ? Json(t.exposed_s) : Json(nullptr)}});
  return out;
}

Json prediction_json(const Prediction& p) {
  return {{"roofline", p.roofline},
          {"measured_on", p.measured_on},
          {"beyond_node", p.beyond_node},
          {"micro_batches", p.micro_batches},
          {"body", p.body_s},
          {"once", p.once_s},
          {"exposed", p.exposed_s},
          {"step", p.step_s},
          {p.unit + "_per_s", p.units_per_s},
          {"flops_per_s", p.flops_per_s},
          {"peak_flops_per_s", p.peak_flops_per_s},
          {"shares",
           {{"arithmetic", p.shares.arithmetic},
            {"memory", p.shares.memory},
            {"launches", p.shares.launches},
            {"exposed", p.shares.exposed}}}};
}
}  // namespace

std::string plan_json(const PlanReport& r) {
  Json out;
  out["name"] = r.name;
  out["data"] = r.data;
  out["ranks"] = r.ranks;
  out["mesh"] = {{"shape", r.mesh.shape}, {"dim_names", r.mesh.dim_names}};
  out["model"] = {{"parameters", r.parameters},
                  {"trained", r.parameters - r.frozen},
                  {"state_bytes", r.state_bytes_once}};
  out["tensors"] = tensors_json(r);
  out["memory"] = memory_json(r);
  out["step"] = step_json(r);
  if (r.together) out["step"]["together"] = r.together;
  out["collectives"] = collectives_json(r);
  out["utilisation"] = Json::array();
  for (const auto& use : r.uses)
    out["utilisation"].push_back({{"ranks", use.ranks}, {"micro_batches", use.most}, {"used", use.used}});
  out["advised_micro"] = r.advised_micro ? Json(r.advised_micro) : Json(nullptr);
  out["prediction"] = r.predicted ? prediction_json(r.prediction) : Json(nullptr);
  out["no_prediction"] = r.predicted ? Json(nullptr) : Json(r.no_prediction);
  out["budgets"] = Json::array();
  for (const PlanBudget& budget : r.budgets)
    out["budgets"].push_back({{"memory_budget", budget.word},
                              {"offload", budget.offload},
                              {"offload_activations", budget.copies || budget.away > 0},
                              {"bytes", budget.bytes},
                              {"arena", budget.arena},
                              {"step", budget.step_s > 0 ? Json(budget.step_s) : Json(nullptr)},
                              {"recomputed_values", budget.values},
                              {"more_flops", budget.more_flops},
                              {"offloaded_values", budget.away},
                              {"offloaded_bytes", budget.away_bytes}});
  out["certificate"] = r.certificate;
  out["same_bits_on"] = r.invariant ? "any" : "this";
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::launcher
