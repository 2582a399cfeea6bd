// Trainer: builds the objects of a run from a config.
#include "launcher/trainer/trainer.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/nn/tuning.h"
#include "core/ops/count_metric.h"
#include "core/optim/clip.h"
#include "core/optim/kinds.h"
#include "launcher/trainer/model.h"
#include "launcher/trainer/paper_step.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
Schedule schedule_of(const RunConfig& config, double lr) {
  const OptimConfig& o = config.optim;
  if (o.schedule.kind == "cosine")
    return warmup_cosine(lr, o.schedule.warmup, config.train.steps, o.schedule.min_ratio);
  if (o.schedule.kind == "linear")
    return warmup_linear(lr, o.schedule.warmup, config.train.steps, o.schedule.min_ratio);
  if (o.schedule.kind == "wsd")
    return warmup_stable_decay(lr, o.schedule.warmup, config.train.steps,
                               o.schedule.decay ? o.schedule.decay : (config.train.steps + 9) / 10,
                               o.schedule.min_ratio);
  if (o.schedule.kind == "restarts")
    return cosine_restarts(lr, o.schedule.warmup,
                           o.schedule.period ? o.schedule.period : (config.train.steps + 3) / 4,
                           o.schedule.growth, o.schedule.min_ratio);
  return constant(lr, o.schedule.warmup);
}
// The plateau schedule of the optimizer; none for another schedule.
std::unique_ptr<Plateau> plateau_of(const RunConfig& config, State& state, Optimizer& optimizer) {
  const ScheduleConfig& s = config.optim.schedule;
  if (s.kind != "plateau") return nullptr;
  auto out =
      std::make_unique<Plateau>(state / "plateau", PlateauOptions{.every = s.metric == "loss" ? s.every : 1,
                                                                  .factor = s.factor,
                                                                  .patience = s.patience,
                                                                  .threshold = s.threshold,
                                                                  .absolute = s.threshold_mode == "abs",
                                                                  .maximize = s.mode == "max",
                                                                  .cooldown = s.cooldown,
                                                                  .least = s.min_ratio});
  optimizer.follow(*out);
  return out;
}
// Applies to each weight the first row that matches it.
std::vector<OptimizerChoice::Group> groups_of(const RunConfig& config, const State& state) {
  std::vector<OptimizerChoice::Group> out;
  std::set<std::string> taken;
  for (const OptimGroup& row : config.optim.groups) {
    out.push_back({{},
                   schedule_of(config, row.lr.value_or(config.optim.lr)),
                   row.weight_decay.value_or(config.optim.weight_decay)});
    bool any = false;
    for (const Parameter& parameter : state.parameters()) {
      if (!names_weight(row.params, parameter.fqn())) continue;
      any = true;
      if (taken.insert(parameter.fqn()).second) out.back().parameters.push_back(parameter);
    }
    if (out.back().parameters.empty())
      throw UserError(
          str("optim.groups names \"", shortened(printable(row.params), 100), "\", which matches no weight ",
              any ? "that no row above it names" : "that is trained", "; trainrun plan lists the weights"));
  }
  return out;
}
std::unique_ptr<Optimizer> optimizer_of(const RunConfig& config, State& state) {
  const OptimConfig& o = config.optim;
  return optimizer_kind(o.kind).make(state / "optim",
                                     {.lr = schedule_of(config, o.lr),
                                      .muon_lr = schedule_of(config, o.muon.lr ? o.muon.lr : o.lr),
                                      .betas = {o.betas[0], o.betas[1]},
                                      .moments = o.moments == "bf16" ? DType::bf16 : DType::f32,
                                      .eps = o.eps,
                                      .momentum = o.momentum,
                                      .alpha = o.alpha,
                                      .weight_decay = o.weight_decay,
                                      .clip = o.clip,
                                      .nesterov = o.nesterov,
                                      .muon_momentum = o.muon.momentum,
                                      .muon_nesterov = o.muon.nesterov,
                                      .muon_iterations = o.muon.iterations,
                                      .muon_rate = o.muon.rate,
                                      .muon_adamw = o.muon.adamw,
                                      .beta2_decay = o.adafactor.beta2_decay,
                                      .eps2 = o.adafactor.eps2,
                                      .d = o.adafactor.d,
                                      .groups = groups_of(config, state)});
}

// A rank's bytes of all weights in the compute dtype, and of gradients in the dtype in which they are sent.
struct WeightBytes {
  int64_t weights = 0, gradients = 0;
};
WeightBytes whole_weights(const State& state, int64_t micro_batches, bool invariant) {
  const Mesh& mesh = state.mesh().words;
  const int64_t elsewhere = mesh.size() / mesh.data_size();  // tp splits nearly all of them
  const bool as_they_are =
      invariant && lane_order(mesh, state.zero(), micro_batches, invariant) == LaneOrder::interleaved;
  WeightBytes out;
  for (const auto& spec : state.specs()) {
    if (spec.role != Role::parameter) continue;
    out.weights += numel(spec.shape) / elsewhere * static_cast<int64_t>(size_of(spec.compute));
    if (spec.trainable)
      out.gradients += numel(spec.shape) / elsewhere *
                       static_cast<int64_t>(as_they_are ? size_of(spec.compute) : sizeof(float));
  }
  return out;
}

// The roofline table of the config's device, which may be absent when planning.
Roofline roofline_for(const RunConfig& config, const Target& target) {
  std::string word = roofline_of(target.device());
  if (device_choice(config.train.device).kind == "cuda" && target.device().kind() == "cpu") word = "h200";
  if (!word.empty()) return roofline_named(word);
  Roofline other = roofline_named(target.device().addressable() ? "cpu" : "h200");
  other.capacity = 0;
  return other;
}

// The task's fields and, if rows are packed, the document of each token.
std::vector<models::Field> sample_fields_of(const RunConfig& config, const tasks::Task& task,
                                            const models::Model& model) {
  std::vector<models::Field> out = task.fields(model, task_options(config));
  if (config.data.kind != "jsonl" || config.data.pack != "documents") return out;
  for (const char* apart : {"masked_lm", "seq2seq", "classification"})  // rows are never packed for these
    if (task.kind == apart) return out;
  if (!model.packs || task.kind != "causal_lm")
    throw UserError(
        str("data.pack is documents, and model.kind ", config.model.kind, " with task.kind ", task.kind,
            " sees no borders of documents; choose data.pack none or stream, or a model that does "
            "(gpt, llama, qwen, mistral, gemma)"));
  const Shape tokens = model.inputs.at(0).shape;
  for (const char* name : {"documents", "positions"}) out.push_back({name, DType::i32, tokens});
  return out;
}

// UserError if layers use float8 but no product of the step can, because no input has suitable rows.
void check_float8(const Graph& step, const State& state) {
  if (!state.float8_products()) return;
  const Node* ragged = nullptr;
  for (const Node& node : step.nodes) {
    if (node.op == ops::linear_float8) return;
    if (node.op == ops::linear && !ragged && !fits_float8(step[node.inputs[0]].shape, {16, 16}))
      ragged = &node;
  }
  if (!ragged) return;
  const Shape& x = step[ragged->inputs[0]].shape;
  throw UserError(str("[linear] ", ragged->at.text(),
                      ": no product of this step runs in float8: rows of an "
                      "input are multiples of ",
                      kFloat8Multiple, " there, and this one is ", str(x), ", ", numel(x) / x.back(),
                      " rows (samples of a micro-batch, times tokens); choose such a "
                      "batch.micro, or train.precision bf16"));
}

// Uses the device's rates even if a plan is predicted with others, because they determine the program.
void set_travel(CompileOptions& options, const RunConfig& config, const Target& target) {
  const Roofline rates = roofline_for(config, target);
  const bool on_host = target.device().addressable() && device_choice(config.train.device).kind != "cuda";
  options.tp_pieces = config.compile.tp_pieces || !on_host ? config.compile.tp_pieces : 1;
  options.travel.flops = products_rate(rates, config.train.precision);
  options.travel.bandwidth = rates.inside.bandwidth, options.travel.latency = rates.inside.latency;
  options.travel.memory = rates.memory, options.travel.launch = rates.launch;
  options.travel.host = rates.host.bandwidth, options.travel.host_latency = rates.host.latency;
}
}  // namespace

Trainer::Trainer(const RunConfig& config, int64_t local_ranks, State& state, const Target& target,
                 const Roofline* given)
    : config_(config),
      state_(state),
      options_(compile_options(config, local_ranks, target)),
      model_(build_model(config, state)),
      task_(tasks::task(task_kind(config))),
      sample_(sample_fields_of(config, task_, model_)),
      optimizer_(optimizer_of(config, state)),
      plateau_(plateau_of(config, state, *optimizer_)) {
  state.zero(static_cast<int>(config.mesh.zero));
  state.place_by_default(model_.placements);
  if (auto rules = adapter_placements(state); !rules.empty()) state.place_by_default(std::move(rules));
  std::vector<PlacementRule> rows;
  for (const auto& row : config.placements.rows)
    rows.push_back({row.dim,
                    row.params,
                    parse_placement(row.place),
                    {"placements", static_cast<int>(rows.size()) + 1, ""}});
  if (!rows.empty()) state.place(std::move(rows));
  set_precision(state, config);
  options_.reshard_after_forward = config.mesh.reshard_after_forward;
  const Mesh& mesh = state.mesh().words;
  const Roofline roofline = given ? *given : roofline_for(config, target);
  const WeightBytes bytes = whole_weights(state, micro_batches(config), options_.invariant);
  options_.bucket_bytes = config.compile.bucket_bytes;
  const bool several_hosts =
      mesh.size() > (state.mesh().ranks_per_node ? state.mesh().ranks_per_node : roofline.ranks_per_node);
  if (!options_.bucket_bytes) {
    options_.bucket_bytes =
        bucket_bytes_for(several_hosts ? roofline.across : roofline.inside, bytes.gradients);
    options_.gather_bytes = gather_bytes_for(options_.bucket_bytes, bytes.weights);
  }
  set_travel(options_, config, target);
  options_.gather = config.mesh.gather == "auto"          ? gather_within(bytes.weights, roofline, target)
                    : config.mesh.gather == "micro_batch" ? GatherWhen::micro_batch
                    : config.mesh.gather == "layers"      ? GatherWhen::layers
                                                          : GatherWhen::step;
}

// Chooses when weights are gathered. Gathering once saves a gather for each micro-batch after the first, but
// needs memory for whole weights and their transfer or, layer by layer, for the activations of all
// micro-batches. If the weights need little memory, always gather once. Else, if there is something to save,
// take the first way whose planned step fits on the device; layer by layer only if it needs no additional
// recomputation.
GatherWhen Trainer::gather_within(int64_t weights, const Roofline& roofline, const Target& target) {
  const LiveMesh& mesh = state_.mesh();
  if (weights <= int64_t{1} << 30) return GatherWhen::step;
  if (config_.mesh.zero != 3 || mesh.words.size("dp_shard") < 2 || !roofline.capacity)
    return GatherWhen::micro_batch;
  if (micro_batches(config_) <= mesh.words.data_size()) return GatherWhen::micro_batch;
  auto planned = [&](GatherWhen when) -> std::optional<StepPlan> {
    options_.gather = when;
    try {
      return plan_training(mesh.words);
    } catch (const UserError&) { return {}; }  // real errors reappear when the step is compiled
  };
  const auto each =
      options_.memory_budget == kRecomputeNothing ? std::nullopt : planned(GatherWhen::micro_batch);
  for (GatherWhen when : {GatherWhen::step, GatherWhen::layers}) {
    auto plan = planned(when);
    if (!plan || (each && plan->recompute.values > each->recompute.values)) continue;
    const PaperStep step(std::move(*plan), mesh);
    if (device_needs(config_, state_, step, nullptr, library_bounds(config_, target)).total() <=
        roofline.capacity)
      return when;
  }
  return GatherWhen::micro_batch;
}

std::vector<BatchField> Trainer::fields() const {
  std::vector<BatchField> out;
  for (const auto& field : sample_) {
    Shape shape = field.shape;
    shape.insert(shape.begin(), config_.batch.micro);
    out.push_back({field.name, field.dtype, shape});
  }
  return out;
}
std::vector<data::SampleField> Trainer::sample_fields() const {
  std::vector<data::SampleField> out;
  for (const auto& field : sample_)
    out.push_back(
        {field.name, field.dtype, field.shape, field.below, field.zeros, out.size() < model_.inputs.size()});
  return out;
}
int64_t Trainer::units() const { return task_.unit == "sample" ? 1 : numel(sample_.back().shape); }

// Each objective has gradients only for the weights it trains; one update applies all of them.
Loss Trainer::traced(const std::vector<Tensor>& batch, bool update) const {
  const auto objectives = task_.objectives(model_, tasks::Batch(sample_, batch), task_options(config_));
  if (!update) return objectives[0].loss;
  Gradients all;
  for (const auto& objective : objectives) {
    std::vector<Parameter> trained;
    for (const Parameter& parameter : state_.parameters())
      if (objective.parameters == "**" || glob_match(objective.parameters, parameter.fqn()))
        trained.push_back(parameter);
    if (trained.empty()) continue;  // all of it is frozen
    Gradients own = grad(objective.loss, trained);
    all.parameters.insert(all.parameters.end(), own.parameters.begin(), own.parameters.end());
    all.values.insert(all.values.end(), own.values.begin(), own.values.end());
    all.ids.insert(all.ids.end(), own.ids.begin(), own.ids.end());
  }
  optimizer_->update(all);
  if (config_.log.norms_every > 0)
    for (size_t i = 0; i < all.values.size(); ++i)
      metric(str(kGradientNorm, all.parameters[i].fqn()),
             global_norm({{all.parameters[i]}, {all.values[i]}}));
  if (plateau_ && config_.optim.schedule.metric == "loss") plateau_->observe(objectives[0].loss);
  return objectives[0].loss;
}
StepFunction Trainer::training_function() const {
  return [this](const std::vector<Tensor>& batch) {
    const Loss loss = traced(batch, true);
    check_float8(batch[0].builder()->graph, state_);
    return loss;
  };
}
const StepPlan& Trainer::begin_training() {
  training_ = begin_step(state_, fields(), {config_.batch.global, config_.batch.micro, config_.batch.lanes},
                         training_function(), options_);
  return training_->plan;
}
const StepPlan& Trainer::begin_evaluation(int64_t sequences) {
  evaluation_ =
      begin_step(state_, fields(), evaluation_shape(sequences), evaluation_function(), evaluation_options());
  return evaluation_->plan;
}
Step Trainer::compile_training() {
  if (training_) return compile(state_, *std::exchange(training_, std::nullopt));
  return compile(state_, fields(), {config_.batch.global, config_.batch.micro, config_.batch.lanes},
                 training_function(), options_);
}
StepPlan Trainer::plan_training(const Mesh& mesh) const {
  return plan_step(state_, mesh, fields(), {config_.batch.global, config_.batch.micro, config_.batch.lanes},
                   training_function(), options_);
}
StepFunction Trainer::evaluation_function() const {
  return [this](const std::vector<Tensor>& batch) {
    Evaluation evaluation;
    return traced(batch, false);
  };
}
BatchShape Trainer::evaluation_shape(int64_t sequences) const {
  int64_t micro = config_.batch.micro;
  return {(sequences + micro - 1) / micro * micro, micro, 0};
}
// An evaluation usually has more micro-batches; layer by layer it would keep the values between buckets for
// all of them.
CompileOptions Trainer::evaluation_options() const {
  CompileOptions out = options_;
  if (out.gather == GatherWhen::layers) out.gather = GatherWhen::micro_batch;
  return out;
}
Step Trainer::compile_evaluation(int64_t sequences, const Step* training) {
  if (evaluation_) {
    LS_CHECK(evaluation_->plan.micro_batches * config_.batch.micro == evaluation_shape(sequences).global,
             "another evaluation was begun");
    return compile(state_, *std::exchange(evaluation_, std::nullopt), training);
  }
  return compile(state_, fields(), evaluation_shape(sequences), evaluation_function(), evaluation_options(),
                 training);
}
StepPlan Trainer::plan_evaluation(const Mesh& mesh, int64_t sequences) const {
  return plan_step(state_, mesh, fields(), evaluation_shape(sequences), evaluation_function(),
                   evaluation_options());
}

bool Trainer::follows_validation() const { return plateau_ && config_.optim.schedule.metric != "loss"; }
void Trainer::check_followed(const Step* evaluation) const {
  if (!follows_validation()) return;
  const std::string& metric = config_.optim.schedule.metric;
  if (!evaluation)
    throw UserError(str("optim.schedule.metric is ", metric,
                        ", and the run has no validation; give it samples, as in data.validation=0.1"));
  std::vector<std::string> known;
  for (const auto& output : evaluation->program().metrics)
    if (output.name != count_metric(0) && !is_later_count(output.name)) known.push_back("val_" + output.name);
  if (task_.perplexity) known.emplace_back("val_perplexity");
  if (std::find(known.begin(), known.end(), metric) == known.end())
    throw UserError(str("optim.schedule.metric is \"", shortened(printable(metric), 100),
                        "\", which the validation of task.kind ", task_.kind, " does not give; choose ",
                        join(known, " or ")));
}
void Trainer::measured(int64_t step, const std::map<std::string, double>& validation) {
  if (!follows_validation() || step % config_.train.eval_every != 0) return;
  plateau_->observe(validation.at(config_.optim.schedule.metric.substr(4)));
}

}  // namespace lockstep::launcher
