// One step on one rank.
#include "compiler/runtime/step.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "compiler/codegen/target.h"
#include "compiler/runtime/certificate.h"
#include "compiler/runtime/replica_check.h"
#include "compiler/runtime/step_inputs.h"
#include "compiler/runtime/tail.h"
#include "compiler/runtime/update.h"
#include "compiler/runtime/weight_stream.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ir/walk.h"
#include "core/mesh/exposed.h"

namespace lockstep {

namespace {
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
}  // namespace

struct Step::Impl {
  Impl(StepPlan given, const LiveMesh& live, uint64_t seed_in,
       std::function<Array*(const std::string&)> arrays, std::function<Scalars(int64_t)> scalars)
      : plan(std::move(given)),
        target(plan.options.backend == Backend::reference ? cpu_target() : target_of(plan.options)),
        device(target.device()),
        mesh(exposed.measured(live, device)),
        seed(seed_in),
        array_of(std::move(arrays)),
        scalars_of(std::move(scalars)),
        group(mesh.group_on(device, kDataDims)) {
    device.enter();
    compute = device.make_stream();
    reductions = target.make_reductions(target_options(plan.options));
    lanes = LanePlan{plan.micro_batches, plan.lanes, mesh.data->size(), mesh.data->rank(), plan.order};
    slots = lanes.slots(lanes.rank);
    groups = {&group};
    for (const auto& name : mesh.words.dim_names)
      if (Group& one = mesh.group_on(device, name);
          one.size() > 1 && std::find(groups.begin(), groups.end(), &one) == groups.end())
        groups.push_back(&one);
    table.device = &device;
    table.at.assign(plan.phases.whole.values.size(), nullptr);
    parts = make_executables(plan, [this](const std::string& dim) { return &mesh.group_on(device, dim); });
    take_state();
    fed = std::make_unique<StepInputs>(plan, lanes, mesh, device, table.at);
    const DataNodes nodes{mesh.seats, mesh.inside_on(device), mesh.across_on(device)};
    for (Group* one : {nodes.inside, nodes.across})
      if (one && std::find(groups.begin(), groups.end(), one) == groups.end())
        groups.push_back(one);  // a dim may have a host's ranks
    reducers = make_reducers(bucket_shapes(plan), lanes, RowOwners::of(mesh.words), device, *reductions,
                             plan.options.invariant, nodes, bucket_dtypes(plan));
    find_counts();
    tail = std::make_unique<Tail>(Tail::Parts{
        plan.phases, mesh, table, reducers.buckets, parts.fragments, plan.kernels, *reductions, plan.options,
        [this](const std::string& fqn) -> void* {
          Array* array = array_of(fqn);
          return array ? array->on(device) : nullptr;
        },
        [this](const Phase& phase) { return inputs_of(phase, -1); }, fed->limits(),
        [this](Stream& on) { replicas->enqueue(fed->checks_replicas(), on); }});
    if (!plan.phases.streamed.empty())
      weights = std::make_unique<WeightStream>(plan.phases, parts.body->gathers(), mesh, device, table.at);
    certificate = certificate_of(plan, parts, lanes.ranks);
    replicas = std::make_unique<ReplicaCheck>(plan.phases, mesh, device, *reductions, state, table.at);
  }

  void take_state() {
    const Graph& whole = plan.phases.whole;
    for (const auto& input : whole.inputs) {
      if (input.kind != InputKind::state) continue;
      Array* array = array_of(input.name);
      LS_CHECK(array && array->data, "state ", input.name, " is not allocated");
      state.push_back(array);
      table.at[input.value] = array->on(device);
    }
    for (const auto& output : whole.outputs)
      if (output.kind == OutputKind::state) written.push_back(array_of(output.name));
  }

  void find_counts() {
    const Graph& whole = plan.phases.whole;
    const auto readers = users_of(whole);
    for (NodeId n : plan.phases.counts) {
      ValueId local = whole.node(n).outputs[0];
      LS_CHECK(numel(whole[local].shape) == 1 && whole[local].dtype == DType::i64, "a count is one i64");
      // Its value after the all_reduce: what reads the term is the start, and what reads the start is the
      // wait.
      auto only_reader = [&](ValueId v) -> const Node& {
        LS_CHECK(readers[v].size() == 1, "a count on its way is read once");
        return whole.node(readers[v][0]);
      };
      summed.push_back(only_reader(only_reader(local).outputs[0]).outputs[0]);
    }
    totals = Buffer((summed.size() + 2) * sizeof(int64_t), device.memory());
    for (size_t c = 0; c < summed.size(); ++c) table.at[summed[c]] = totals.as<int64_t>() + c;
  }

  // Pointers of a phase's inputs; `micro` is the local index of the micro-batch for batch fields and the
  // sample number.
  std::vector<void*> inputs_of(const Phase& phase, int64_t micro) {
    std::vector<void*> out;
    for (size_t i = 0; i < phase.graph.inputs.size(); ++i) {
      const GraphInput& input = phase.graph.inputs[i];
      if (input.kind == InputKind::batch) {
        LS_CHECK(micro >= 0, "batch field ", input.name, " is read outside a micro-batch");
        out.push_back(fed->field(micro, input.name));
      } else if (void* number = micro >= 0 ? fed->sample(phase.inputs[i], micro) : nullptr) {
        out.push_back(number);
      } else {
        void* pointer = table.at[phase.inputs[i]];
        LS_CHECK(pointer || (weights && micro >= 0), "input ", input.name, " of a phase has no value");
        out.push_back(pointer);
      }
    }
    return out;
  }

  // Token counts of all micro-batches, summed as integers over the ranks, before any backward is seeded.
  void run_counts() {
    const size_t n = summed.size();
    device.zero(totals.data(), totals.bytes(), *compute);
    for (int64_t j = 0; j < slots; ++j) {
      if (micro_batch(j) < 0) continue;
      parts.count->run(inputs_of(plan.phases.count, j), *compute);
      for (size_t c = 0; c < n; ++c)
        reductions->add(totals.as<int64_t>() + c, static_cast<const int64_t*>(parts.count->output(c)), 1,
                        *compute);
    }
    reductions->add(totals.as<int64_t>() + n, fed->vote(), 2, *compute);
    if (group.size() > 1)
      group
          .start(
              AllReduce{totals.data(), totals.data(), static_cast<int64_t>(n) + 2, DType::i64, ReduceOp::sum},
              "count", *compute)
          ->wait(*compute);
    // Counts are equal along a model dim; votes are not.
    for (const auto& name : mesh.words.dim_names)
      if (Group& along = mesh.group_on(device, name); !is_data_dim(name) && along.size() > 1)
        along
            .start(
                AllReduce{totals.as<int64_t>() + n, totals.as<int64_t>() + n, 2, DType::i64, ReduceOp::sum},
                "votes", *compute)
            ->wait(*compute);
    parts.seed->run(inputs_of(plan.phases.seed, -1), *compute);
    for (size_t o = 0; o < plan.phases.seed.outputs.size(); ++o)
      table.at[plan.phases.seed.outputs[o]] = const_cast<void*>(parts.seed->output(o));
  }

  // The micro-batch that this rank runs in a slot; -1: none.
  int64_t micro_batch(int64_t slot) const { return lanes.micro_batch(lanes.rank, slot); }

  void end_exchange(size_t bucket) {
    logs::topic("collectives", str("exchange ", bucket, " of ", reducers.buckets.size(),
                                   " started: ", reducers.buckets[bucket]->sent_bytes(), " bytes"));
    reducers.buckets[bucket]->end(group, *compute, str("exchange ", bucket));
  }

  void run_bodies() {
    for (auto& reducer : reducers.buckets) reducer->begin();
    auto add = [&](int64_t slot, size_t g, const std::vector<const void*>& gradients) {
      reducers.buckets[g]->add(slot, gradients, group, *compute, str("exchange ", g));
      // The last micro-batch's gradients travel while the rest of its backward runs.
      if (slot + 1 == slots) end_exchange(g);
    };
    auto gradients_of = [&](int g) {
      std::vector<const void*> gradients;
      for (int output : plan.phases.buckets[g]) gradients.push_back(parts.body->output(output));
      return gradients;
    };
    if (weights && plan.options.gather == GatherWhen::layers) {
      std::vector<std::vector<void*>> inputs(slots);
      for (int64_t j = 0; j < slots; ++j)
        if (micro_batch(j) >= 0) inputs[j] = inputs_of(plan.phases.body, j);
      auto after = [&](size_t j, int g) {
        add(static_cast<int64_t>(j), g, inputs[j].empty() ? std::vector<const void*>{} : gradients_of(g));
      };
      return parts.body->run_layers(inputs, *compute, after, *weights);
    }
    for (int64_t j = 0; j < slots; ++j) {
      // An idle slot runs a body where bodies gather weights: all ranks take part.
      const bool idle = micro_batch(j) < 0;
      if (idle && !weights) {
        for (size_t g = 0; g < reducers.buckets.size(); ++g) add(j, g, {});
        continue;
      }
      auto after = [&](int g) { add(j, g, idle ? std::vector<const void*>{} : gradients_of(g)); };
      if (weights)
        parts.body->run(inputs_of(plan.phases.body, j), *compute, after, *weights);
      else
        parts.body->run(inputs_of(plan.phases.body, j), *compute, after);
    }
    if (slots == 0)
      for (size_t g = 0; g < reducers.buckets.size(); ++g) end_exchange(g);
  }

  uint64_t state_version() const {
    uint64_t sum = 0;
    for (const Array* array : state) sum += array->version();
    return sum;
  }

  // The whole step between its inputs and its results. Its pointers are the same in every step.
  void enqueue() {
    exposed.begin();
    double start = now();
    tail->run_head(*compute);
    run_counts();
    double counted = now();
    run_bodies();
    double done = now();
    tail->run(*compute);
    times.count_s = counted - start;
    times.body_s = done - counted;
    times.tail_s = now() - done;
  }

  // The first step runs call by call (libraries load and prepare then), the second is captured where the
  // device can, later ones replay.
  void run_program() {
    if (timing()) {  // call by call, and captured anew afterwards: marks of the program are gone
      program.reset();
      runs = 1;
      return enqueue();
    }
    const bool capture = !program && ++runs == 2 && plan.options.capture &&
                         std::all_of(groups.begin(), groups.end(),
                                     [](Group* one) { return one->size() == 1 || one->capturable(); });
    if (capture) program = device.capture(*compute, [this] { enqueue(); });
    if (capture && program)
      logs::topic("plan", str("the step is one captured program of ", program->nodes(), " nodes"));
    if (!program) return enqueue();
    program->launch(*compute);
    for (Group* one : groups)
      if (one->size() > 1) one->note_launch(str("step ", step_number), *compute);
  }

  StepResult run(const StepInput& input) {
    device.enter();
    step_number = input.step;
    times = {};
    for (Array* array : state) array->on(device);
    // The rounded weights of the last step's update are the ones, unless somebody else wrote the state since.
    if (!tail->rounds_in_update() || written.empty() || state_version() != rounded_version)
      tail->round_weights(*compute);
    fed->send(input, seed, scalars_of(input.step), *compute);
    run_program();
    std::vector<std::pair<std::string, ValueId>> metrics;
    for (const auto& output : plan.phases.whole.outputs)
      if (output.kind == OutputKind::metric) metrics.emplace_back(output.name, output.value);
    const size_t named = metrics.size();
    for (ValueId gate : update_gates(plan.phases.whole)) metrics.emplace_back("", gate);
    const size_t sums_at = 8 * (metrics.size() + 2),
                 checked = input.check_replicas ? replicas->replicas().size() * 8 : 0;
    if (!results) results = Buffer(sums_at + replicas->replicas().size() * 8, device.staging());
    device.copy(results.data(), totals.as<int64_t>() + summed.size(), 16, *compute);
    if (checked) device.copy(results.data() + sums_at, replicas->words(), checked, *compute);
    for (size_t m = 0; m < metrics.size(); ++m) {
      const Value& value = plan.phases.whole[metrics[m].second];
      LS_CHECK(numel(value.shape) == 1, "metric ", metrics[m].first, " is ",
               shape_text(value.dtype, value.shape));
      device.copy(results.data() + 8 * (m + 2), table.at[metrics[m].second], size_of(value.dtype), *compute);
    }
    for (Array* array : written) array->device_wrote(device);
    rounded_version = state_version();
    fed->fill_next(input);
    finish();
    StepResult result;
    result.exposed = exposed.seconds();
    result.votes = results.as<int64_t>()[0];
    result.replicas_differ = results.as<int64_t>()[1] != 0;
    if (checked) {
      const auto* found = reinterpret_cast<const uint64_t*>(results.data() + sums_at);
      result.replica_sums.assign(found, found + replicas->replicas().size());
    }
    for (size_t m = 0; m < metrics.size(); ++m) {
      const double value =
          get_double(plan.phases.whole[metrics[m].second].dtype, results.data() + 8 * (m + 2), 0);
      if (m < named)
        result.metrics[metrics[m].first] = value;
      else if (!(std::abs(static_cast<float>(value)) <=
                 (m + 1 == metrics.size() ? input.loss_limit : input.norm_limit)))
        result.applied = false;
    }
    return result;
  }

  std::vector<uint64_t> checksums_now() {
    std::vector<uint64_t> out(replicas->replicas().size());
    if (!replicas->of_state()) return out;
    device.enter();
    for (Array* array : state) array->on(device);
    Buffer wanted(sizeof(int64_t), device.memory());
    const int64_t yes = 1;
    copy_to_device(device, wanted.data(), &yes, sizeof yes);
    replicas->enqueue(wanted.as<int64_t>(), *compute);
    finish();
    copy_to_host(device, out.data(), replicas->words(), replicas->of_state() * sizeof(uint64_t));
    return out;
  }

  void inspect(const StepInput& input, const Graph& graph, std::shared_ptr<const KernelSet> own,
               const CompileOptions& options, const Visit& visit) {
    device.enter();
    ExecutableSource source{
        graph,
        {},
        {},
        {plan.options.gather_bytes ? plan.options.gather_bytes : plan.options.bucket_bytes,
         plan.options.reshard_after_forward},
        1,
        [this](const std::string& dim) { return &mesh.group_on(device, dim); }};
    for (size_t o = 0; o < graph.outputs.size(); ++o) source.groups.push_back({static_cast<int>(o)});
    for (const auto& weight : plan.phases.streamed) source.streamed.push_back(weight.input);
    std::unique_ptr<Executable> body;
    std::string refused;
    try {
      body = options.backend == Backend::reference ? make_reference(source)
                                                   : make_native(source, std::move(own), options);
    } catch (const UserError& error) { refused = error.what(); }
    agree(*mesh.world, refused);
    std::unique_ptr<WeightStream> gathers;
    if (!source.streamed.empty())
      gathers = std::make_unique<WeightStream>(plan.phases, body->gathers(), mesh, device, table.at);
    program.reset();  // its marks are gone with what is enqueued here; the next step is captured anew
    runs = std::min<int64_t>(runs, 1);
    for (Array* array : state) array->on(device);
    if (!tail->rounds_in_update() || written.empty() || state_version() != rounded_version)
      tail->round_weights(*compute);
    fed->send(input, seed, scalars_of(input.step), *compute);
    exposed.begin();
    tail->run_head(*compute);
    run_counts();
    for (int64_t j = 0; j < slots; ++j) {
      const int64_t micro = micro_batch(j);
      if (micro < 0 && !gathers) continue;
      auto after = [&](int output) {
        if (micro >= 0) compute->synchronize(), visit(micro, output, *body);
      };
      const auto inputs = inputs_of(plan.phases.body, j);
      gathers ? body->run(inputs, *compute, after, *gathers) : body->run(inputs, *compute, after);
    }
    finish();
  }

  // Waits for the device, and looks after the peers meanwhile: a collective that never ends keeps the device
  // busy for ever.
  void finish() {
    if (device.addressable()) return compute->synchronize();
    auto end = compute->record();
    wait_on_host(*end, groups);
  }

  StepPlan plan;
  const Target& target;
  Device& device;
  ExposedTime exposed;
  LiveMesh mesh;  // its groups measured
  uint64_t seed;
  std::function<Array*(const std::string&)> array_of;
  std::function<Scalars(int64_t)> scalars_of;
  Group& group;                // of the data dims, on the device's memory
  std::vector<Group*> groups;  // it, and those of single dims
  std::unique_ptr<Reductions> reductions;
  LanePlan lanes;
  ValueTable table;
  StepExecutables parts;
  std::vector<Array*> state, written;
  GradientReducers reducers;
  std::unique_ptr<StepInputs> fed;
  int64_t slots = 0;  // of the lane plan: micro-batches, and idle ones
  Buffer totals, results;
  std::unique_ptr<ReplicaCheck> replicas;
  std::vector<ValueId> summed;  // per count: its value summed over the ranks
  std::unique_ptr<Tail> tail;
  std::unique_ptr<WeightStream> weights;  // null: the head gathers all weights
  std::string certificate;
  StepTimes times;
  int64_t runs = 0, step_number = 0;
  uint64_t rounded_version = ~uint64_t{0};
  std::unique_ptr<Stream>
      compute;  // after everything that its work reads: it waits for that work when it goes
  std::unique_ptr<CapturedWork> program;  // before its buffers and the group
};

Step::Step(StepPlan plan, const LiveMesh& mesh, uint64_t seed,
           std::function<Array*(const std::string&)> array_of, std::function<Scalars(int64_t)> scalars_of)
    : impl_(std::make_unique<Impl>(std::move(plan), mesh, seed, std::move(array_of), std::move(scalars_of))) {
}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;

StepResult Step::run(const StepInput& input) { return impl_->run(input); }
void Step::inspect(const StepInput& input, const Graph& body, std::shared_ptr<const KernelSet> kernels,
                   const CompileOptions& options, const Visit& visit) {
  impl_->inspect(input, body, std::move(kernels), options, visit);
}
const std::vector<Replica>& Step::replicas() const { return impl_->replicas->replicas(); }
std::vector<uint64_t> Step::checksums_now() { return impl_->checksums_now(); }
const std::string& Step::certificate() const { return impl_->certificate; }
const StepPlan& Step::plan() const { return impl_->plan; }
const LanePlan& Step::lane_plan() const { return impl_->lanes; }
int64_t Step::arena_bytes() const { return impl_->parts.arena_bytes(); }
int64_t Step::reduction_bytes() const { return impl_->tail->bytes() + impl_->reducers.bytes(); }
std::string Step::describe() const { return impl_->parts.body->describe(); }
StepTimes Step::times() const { return impl_->times; }
std::vector<std::pair<std::string, double>> Step::waits() const { return impl_->exposed.waits(); }
std::vector<CallTime> Step::call_times() const { return impl_->parts.body->times(); }

}  // namespace lockstep
