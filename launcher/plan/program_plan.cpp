// Turns a traced step into the output of trainrun plan.
#include "launcher/plan/program_plan.h"

#include <optional>

#include "compiler/program/check/verify.h"
#include "compiler/program/show/listing.h"
#include "compiler/program/show/print.h"
#include "core/base/error.h"
#include "launcher/machine/host_rates.h"
#include "launcher/machine/hosts.h"
#include "launcher/plan/report.h"
#include "launcher/plan/step_graph.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
RunConfig config_of_mesh(const Mesh& words) {
  RunConfig out;
  out.mesh.shape = words.shape;
  out.mesh.dim_names = words.dim_names;
  return out;
}
}  // namespace

RunConfig config_of_plan(const StepPlan& plan, const State& state, const std::string& name) {
  RunConfig out = config_of_mesh(state.mesh().words);
  out.name = name;
  out.batch.micro = plan.fields.empty() ? 1 : plan.fields[0].shape[0];
  out.batch.global = out.batch.micro * plan.micro_batches;
  out.batch.lanes = plan.lanes;
  out.mesh.zero = state.zero();
  out.mesh.ranks_per_node = state.mesh().ranks_per_node;
  out.train.precision = plan.options.precision;
  const std::string kind(target_of(plan.options).device().kind());
  out.train.device = kind == "cpu" || kind == "cuda" ? kind : "plugin:" + kind;
  out.train.numerics = plan.options.invariant ? "invariant" : "free";
  return out;
}

LiveMesh mesh_of_plan(const PlanRequest& request, const Mesh& words, const FoundTarget& found) {
  LiveMesh out = solo_mesh();
  out.words = words;
  const std::string word = roofline_word(request.roofline, "auto", found);
  const int64_t of_host = word.empty() ? 0 : roofline_named(word).ranks_per_node;
  if (of_host && words.size() > of_host && words.size() % of_host == 0) {
    out.ranks_per_node = of_host;
    out.seats = data_ranks_per_node(words, of_host);
  }
  return out;
}

ProgramPlan plan_program(const PlanRequest& request, const StepPlan& plan, const StepPlan* evaluation,
                         const State& state, const FoundTarget& found) {
  const RunConfig config = config_of_plan(plan, state, request.name);
  const Mesh& words = state.mesh().words;
  const PaperStep step(plan, state.mesh());
  const std::string word = roofline_word(request.roofline, "auto", found);
  const Roofline roofline = word.empty()               ? Roofline{}
                            : request.roofline.empty() ? roofline_here(word)
                                                       : roofline_named(word);
  if (request.program || request.listing || request.graph) {
    if (request.rank >= words.size())
      throw UserError(str("--rank is ", request.rank, ", and the ranks of this plan are 0 to ",
                          words.size() - 1, "; give one of them, or a larger --nproc"));
    StepProgram program = program_of(step, words, request.rank);
    verify(program);
    if (request.graph && word.empty()) throw UserError(str("show --graph: ", no_roofline(found)));
    if (request.graph)
      return {to_json(draw_step({request.name, words, step, request.rank, config.train.precision}, program,
                                roofline))
                  .dump(-1, ' ', false, Json::error_handler_t::replace),
              ""};
    return {request.listing ? listing(program) : print(program), ""};
  }
  std::optional<PaperStep> beside;
  if (evaluation) beside.emplace(*evaluation, state.mesh());
  PlanReport report = make_report(config, {"samples", config.batch.global}, state, step,
                                  word.empty() ? nullptr : &roofline, no_roofline(found));
  add_memory(
      report, config, found,
      device_needs(config, state, step, beside ? &*beside : nullptr, library_bounds(config, found.target)),
      request.memory);
  report.host_by = "the roofline " + roofline.name;
  report.sought = false;
  ProgramPlan out{request.json    ? plan_json(report)
                  : request.whole ? plan_text(report)
                                  : plan_screen(report),
                  ""};
  if (!report.fits())
    out.refused =
        str(too_large(config.name, report.ranks, report.needs, report.available),
            "; take a smaller micro_batch, more ranks with the mesh dim dp_shard, or a smaller model");
  return out;
}

}  // namespace lockstep::launcher
