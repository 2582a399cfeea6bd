// compile(): pipeline, phases, kernels, broadcast.
#include "compiler/compile/compile.h"

#include <algorithm>

#include "compiler/codegen/target.h"
#include "compiler/compile/constant_ids.h"
#include "compiler/compile/counted_scalars.h"
#include "compiler/compile/distribute_kernels.h"
#include "compiler/compile/fingerprint.h"
#include "compiler/compile/memory_budget.h"
#include "compiler/compile/micro_batch.h"
#include "compiler/compile/model_dims.h"
#include "compiler/compile/moments_on_host.h"
#include "compiler/compile/plan_observer.h"
#include "compiler/pipeline.h"
#include "compiler/runtime/executable.h"
#include "compiler/runtime/executor.h"
#include "compiler/runtime/update.h"
#include "compiler/schedule/gather_float8.h"
#include "compiler/schedule/join_maxima.h"
#include "compiler/schedule/stream_weights.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ir/print.h"
#include "core/mesh/together.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
// The plan of a typed program: its phases, lowered for the backend.
StepPlan lowered(StepPlan plan, const Graph& whole, const Streaming& streaming, const PassContext& context) {
  plan.phases = cut_phases(whole);
  stream_weights(plan.phases, streaming);
  const Graph plain_seed = plan.phases.seed.graph;
  const bool by_updates =
      context.options.backend != Backend::reference && target_of(context.options).rounds_by_scales();
  const bool in_float8 = gather_float8(plan.phases, by_updates);
  if (in_float8) plan.phases.seed.graph = join_maxima(plan.phases.seed.graph);
  for (const auto& input : whole.inputs)
    if (input.kind == InputKind::state) plan.layouts[input.name] = context.layout_of(input.name);
  auto lower = [&](const Graph& graph) {
    return context.options.backend == Backend::reference ? graph : run_passes(graph, phase_passes(), context);
  };
  plan.count = lower(plan.phases.count.graph);
  plan.seed = lower(plan.phases.seed.graph);
  plan.body = lower(plan.phases.body.graph);
  plan.copies = lower(plan.phases.copies.graph);
  plan.maxima = lower(plan.phases.own_rows.maxima.graph);
  plan.cast = lower(plan.phases.own_rows.cast.graph);
  plan.scales = lower(plan.phases.own_rows.scales.graph);
  if (in_float8) plan.plain_seed = std::make_shared<const Graph>(lower(plain_seed));
  for (const auto& fragment : plan.phases.fragments) plan.fragments.push_back(lower(fragment.graph));
  return plan;
}

// The mesh dim over which the body gathers weights while it computes; "" for none. It is dp_shard for ZeRO 3.
// It is dp_replicate if weights that are rounded for compute are split only along it, and each rank runs one
// body, which gathers each weight once. That holds if the rank has one micro-batch, or runs all of its own
// together. With whole lanes, fewer lanes than ranks leave ranks without a lane, which run no body.
std::string body_dim(const State& state, const Mesh& mesh, const StepPlan& plan, const Graph& traced) {
  if (mesh.size("dp_shard") > 1) return state.zero() == 3 ? "dp_shard" : "";
  const int64_t ranks = mesh.size("dp_replicate");
  if (ranks < 2 || state.compute_dtype() == DType::f32) return "";
  if (plan.order == LaneOrder::contiguous && plan.lanes % ranks) return "";
  const int64_t each = plan.micro_batches / ranks;
  const bool by_rows = std::any_of(traced.nodes.begin(), traced.nodes.end(),
                                   [](const Node& node) { return node.op == ops::lane_rows; });
  const bool one_body = each == 1 || (plan.options.together >= each && mesh.size("tp") == 1 && !by_rows &&
                                      plan.options.memory_budget == kRecomputeNothing);
  return one_body ? "dp_replicate" : "";
}

bool is_sparse(const State& state, const std::string& fqn) {
  const Parameter found = state.find_spec(fqn);
  return found && found.spec().sparse;
}

// Refuses steps that cannot have sparse tables, or split ones.
void check_sparse(const Graph& traced, const State& state, const Mesh& mesh, const CompileOptions& options) {
  for (const Node& node : traced.nodes) {
    if (node.op != ops::lane_rows) continue;
    const std::string table =
        str("[sparse] ", node.at.text(), ": \"", node.attrs.word("of"), "\" is a sparse table, ");
    if (mesh.size("tp") > 1)
      throw UserError(
          str(table, "and the mesh splits models over tp (", mesh.size("tp"),
              " ranks); sparse tables work on the data dims (dp_replicate, dp_shard): leave tp out, or "
              "make the table dense"));
    if (options.backend != Backend::reference && !target_of(options).sums_rows())
      throw UserError(
          str(table, "and the step runs on ", target_of(options).device().describe(),
              ", which sums no rows by their ids (Target::sums_rows); make the table dense, or train "
              "on the CPU or an NVIDIA GPU"));
  }
  if (options.backend == Backend::reference || target_of(options).takes_rows()) return;
  for (const auto& input : traced.inputs) {
    if (input.kind != InputKind::state || !is_sparse(state, input.name)) continue;
    const int dim = mesh.find("dp_shard");
    if (dim < 0 || state.layout(input.name).on(dim) == Replicate()) continue;
    throw UserError(str("[sparse] ", state.find_spec(input.name).spec().at.text(), ": \"", input.name,
                        "\" is a sparse table whose rows are split over dp_shard (", mesh.shape[dim],
                        " ranks), which only the CPU can do, and the step runs on ",
                        target_of(options).device().describe(),
                        "; keep it whole (mesh.zero 1 or 2, or a placement: "
                        "replicate on dp_shard), or make it dense"));
  }
}

// Adds a data dim: a mesh with only model dims has one data rank.
Mesh with_data_dim(Mesh mesh) {
  for (const auto& dim : mesh.dim_names)
    if (is_data_dim(dim)) return mesh;
  mesh.shape.push_back(1);
  mesh.dim_names.push_back("dp_replicate");
  return mesh;
}

PlanObserver g_observer;

std::vector<KernelSource> kernel_sources(const StepPlan& plan) {
  std::vector<KernelSource> sources;
  auto add = [&](std::vector<KernelSource> more) {
    for (auto& source : more) {
      bool known = false;
      for (const auto& have : sources) known = known || have.name == source.name;
      if (!known) sources.push_back(std::move(source));
    }
  };
  for (const Graph* graph :
       {&plan.count, &plan.seed, &plan.body, &plan.copies, &plan.maxima, &plan.cast, &plan.scales})
    add(kernels_of(*graph, plan.options));
  for (const auto& fragment : plan.fragments) add(kernels_of(fragment, plan.options));
  add(update_kernels(plan.phases, plan.options, kept_gradients(plan), true));
  return sources;
}

// The step's micro-batches, lanes and fields, before it is traced.
StepPlan plan_of_batch(const State& state, const Mesh& mesh, const std::vector<BatchField>& batch,
                       const BatchShape& shape, const CompileOptions& options) {
  if (shape.micro < 1 || shape.global < 1 || shape.global % shape.micro)
    throw UserError(str("batch.global ", shape.global, " is no multiple of batch.micro ", shape.micro,
                        "; choose a divisor"));
  if (options.together < 1)
    throw UserError(str("together is ", options.together, "; at least 1 micro-batch runs at a time"));
  StepPlan plan;
  plan.options = options;
  plan.micro_batches = shape.global / shape.micro;
  plan.lanes = shape.lanes ? shape.lanes : default_lanes(plan.micro_batches);
  if (plan.micro_batches % plan.lanes)
    throw UserError(str("batch.lanes ", plan.lanes, " does not divide the ", plan.micro_batches,
                        " micro-batches (batch.global ", shape.global, " / batch.micro ", shape.micro,
                        "); choose a divisor"));
  need_split_on_tp(state, mesh);
  plan.order = lane_order(mesh, state.zero(), plan.micro_batches, options.invariant);
  plan.options.together = std::min(options.together, plan.micro_batches);
  for (const auto& field : batch) {
    LS_CHECK(field.shape.size() >= 1 && field.shape[0] == shape.micro, "batch field ", field.name,
             " is not a micro-batch of ", shape.micro);
    plan.fields.push_back({field.name, field.dtype, field.shape});
  }
  return plan;
}

// plan_step with hooks: `on_traced` gets the graph of a micro-batch; `on_lowered` gets a plan without
// recomputation, before its libraries' plans are made.
StepPlan plan_with(const State& state, const Mesh& mesh, const std::vector<BatchField>& batch,
                   const BatchShape& shape, const StepFunction& function, const CompileOptions& options,
                   const std::function<void(const Graph&)>& on_traced,
                   const std::function<void(const StepPlan&)>& on_lowered) {
  StepPlan plan = plan_of_batch(state, mesh, batch, shape, options);
  PassContext context{
      with_data_dim(mesh), [&state](const std::string& fqn) { return state.layout(fqn); }, options,
      [&state](const std::string& fqn, const std::string& dim) { return state.row_of(fqn, dim); }};
  context.is_sparse = [&state](const std::string& fqn) { return is_sparse(state, fqn); };
  context.micro_batches = plan.micro_batches;
  context.gradients_travel_as_they_are = plan.order == LaneOrder::interleaved && options.invariant;
  const bool scaled = state.compute_dtype() == DType::f16;
  Told told;
  Graph traced = trace(
      batch,
      [&](const std::vector<Tensor>& fields) {
        return scaled ? with_loss_scale(state.loss_scale(), fields, function) : function(fields);
      },
      state.policy(), plan.micro_batches, &told);
  check_sparse(traced, state, mesh, options);
  if (logs::enabled("trace")) logs::topic("trace", print(traced));
  verify(traced, "trace");
  if (on_traced) on_traced(traced);
  plan.terms = std::move(told.terms);
  const std::vector<IdRead> reads = id_reads(traced, told.id_reads);
  check_constant_ids(traced, reads);
  plan.ids = id_bounds(traced, reads);
  plan.of_scalars = tensors_of_scalars(traced);
  const auto rows = step_passes();
  const size_t again =
      std::find_if(rows.begin(), rows.end(),
                   [](const PassRow& row) { return std::string_view(row.name) == "rematerialize"; }) -
      rows.begin();
  // ZeRO 1 and 2 keep whole weights in the compute dtype; the reference evaluator reads whole values.
  Streaming streaming{.seed = options.backend != Backend::reference};
  if (streaming.seed && options.gather != GatherWhen::step)
    streaming.body_dim = body_dim(state, mesh, plan, traced);
  if (streaming.body_dim == "dp_replicate")
    plan.options.gather = GatherWhen::micro_batch, plan.options.reshard_after_forward = false;
  const Graph joint = run_passes(std::move(traced), rows.first(again), context);
  return plan_within_budget(joint, options, [&](const std::vector<ValueId>& recomputed) {
    PassContext own = context;  // several are planned at the same time
    own.recomputed = recomputed;
    const Graph whole = run_passes(joint, rows.subspan(again), own);
    StepPlan made = lowered(plan, whole, streaming, own);
    if (options.offload_moments) made.on_host = moments_on_host(whole, state, own.mesh);
    if (recomputed.empty() && on_lowered) on_lowered(made);
    return made;
  });
}
}  // namespace

StepPlan plan_step(const State& state, const Mesh& mesh, const std::vector<BatchField>& batch,
                   const BatchShape& shape, const StepFunction& function, const CompileOptions& options) {
  return plan_with(state, mesh, batch, shape, function, options, {}, {});
}

void set_plan_observer(PlanObserver observer) { g_observer = std::move(observer); }

BegunStep begin_step(const State& state, const std::vector<BatchField>& batch, const BatchShape& shape,
                     const StepFunction& function, const CompileOptions& options) {
  const LiveMesh& mesh = state.mesh();
  BegunStep out;
  // Kernels and gradient sums compile while the plans of libraries are made.
  std::unique_ptr<Reductions> sums;
  std::function<void(const StepPlan&)> begin;
  if (options.backend != Backend::reference) {
    sums = target_of(options).make_reductions(target_options(options));
    begin = [&](const StepPlan& plan) {
      begin_sums(*sums, foretold_sum_forms(plan, {mesh.words, mesh.rank, mesh.seats}));
      if (mesh.world->rank() != 0 || options.memory_budget != kRecomputeNothing) return;
      out.sources = kernel_sources(plan);
      target_of(options).begin_compile(out.sources, target_options(plan.options));
    };
  }
  const auto tell = [&](const Graph& traced) {
    tell_mixed_samples(state, traced, batch, shape.global, shape.micro, function);
  };
  out.plan = plan_with(state, mesh.words, batch, shape, function, options, tell, begin);
  return out;
}

Step compile(State& state, const std::vector<BatchField>& batch, const BatchShape& shape,
             const StepFunction& function, const CompileOptions& options, const Step* lender) {
  BegunStep begun =
      together(*state.mesh().world, [&] { return begin_step(state, batch, shape, function, options); });
  return compile(state, std::move(begun), lender);
}

void tell_no_update(const Step& step, const State& state) {
  const auto& outputs = step.plan().phases.whole.outputs;
  const bool writes = std::any_of(outputs.begin(), outputs.end(),
                                  [](const auto& output) { return output.kind == OutputKind::state; });
  if (writes || state.mesh().rank != 0) return;
  logs::warn(
      "[step] the step updates nothing: it measures, and no weight learns; call the optimizer's "
      "update(grad(loss, state.parameters())) in it, or assign()");
}

Step compile(State& state, BegunStep begun, const Step* lender) {
  const LiveMesh& mesh = state.mesh();
  Group& world = *mesh.world;
  StepPlan plan = std::move(begun.plan);
  if (const std::string whole = state.allocated() ? "" : whole_on_tp(state, mesh.words); !whole.empty())
    logs::info(whole);
  if (world.size() > 1) compare(world, compile_place(plan), plan_parts(plan, state));
  if (g_observer) together(world, [&] { g_observer(plan, state, lender); });
  if (plan.options.backend != Backend::reference) {
    together(world, [&] {
      if (world.rank() == 0 && begun.sources.empty()) begun.sources = kernel_sources(plan);
    });
    plan.kernels = distribute_kernels(world, plan.options, begun.sources);
  }
  // If one rank runs out of memory or lacks a library, the others must not wait for it below.
  auto counted = std::make_shared<const CountedScalars>(plan, state);
  Step step = together(world, [&] {
    state.allocate();
    return Step(
        std::move(plan), mesh, state.seed(), [&state](const std::string& fqn) { return state.find(fqn); },
        [&state, counted](int64_t step) {
          state.start();
          return counted->at(step);
        },
        lender);
  });
  // Another processor or library on one rank would give other bits. It is better to report that now than to
  // see it in the losses.
  if (world.size() > 1) compare(world, "before step 1", artifact_parts(step));
  if (world.rank() == 0 && logs::enabled("plan")) logs::topic("plan", step.describe());
  return step;
}

}  // namespace lockstep::compiler
