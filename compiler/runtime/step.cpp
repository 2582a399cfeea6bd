// Runs one step on one rank.
#include "compiler/runtime/step.h"

#include <algorithm>
#include <cmath>

#include "compiler/codegen/target.h"
#include "compiler/program/build/build.h"
#include "compiler/program/build/lent_memory.h"
#include "compiler/program/check/verify.h"
#include "compiler/program/show/folds.h"
#include "compiler/runtime/certificate.h"
#include "compiler/runtime/executor.h"
#include "compiler/runtime/recomputation.h"
#include "compiler/runtime/step_inputs.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/mesh/exposed.h"
#include "core/mesh/fingerprint.h"
#include "core/ops/count_metric.h"

namespace lockstep::compiler {

struct Step::Impl {
  Impl(StepPlan given, const LiveMesh& live, uint64_t seed_in,
       std::function<Array*(const std::string&)> arrays, std::function<Scalars(int64_t)> scalars,
       const Impl* lends)
      : plan(std::move(given)),
        target(plan.options.backend == Backend::reference ? cpu_target() : target_of(plan.options)),
        device(target.device()),
        plain(live),
        mesh(exposed.measured(live, device)),
        seed(seed_in),
        array_of(std::move(arrays)),
        scalars_of(std::move(scalars)),
        lanes{plan.micro_batches, plan.lanes, mesh.data->size(), mesh.data->rank(), plan.order},
        lender(lends) {
    LS_CHECK(!lender || &lender->device == &device, "a step lies in the memory of another device");
    device.enter();
    compute = device.make_stream();
    reductions = target.make_reductions(target_options(plan.options));
    take_state();
    StepBlocks blocks = plan_blocks(plan);
    certificate = certificate_of(plan, blocks, lanes.ranks);
    program = build_program(plan, std::move(blocks), rank());
    if (env_flag("LOCKSTEP_VERIFY")) verify(program);
    if (lender) lent = lent_places(program, lender->program);
    executor = std::make_unique<Executor>(
        Executor::Parts{program, plan.phases.whole, plan.options, plan.kernels, mesh, device, *reductions,
                        [this](size_t region) { return memory_of(region); }});
    places = places_of_state();
    fed = std::make_unique<StepInputs>(plan, lanes, mesh, device, program, *executor);
    results = Buffer(results_size(), device.staging());
    target.finish_library_calls();
  }

  ProgramRank rank() const {
    return {mesh.words,
            mesh.rank,
            mesh.seats,
            {reductions->most_sources(), reductions->most_lefts(), device.describe()}};
  }

  void take_state() {
    const Graph& whole = plan.phases.whole;
    for (const auto& input : whole.inputs) {
      if (input.kind != InputKind::state) continue;
      Array* array = array_of(input.name);
      LS_CHECK(array && array->data, "state ", input.name, " is not allocated");
      state.push_back(array);
    }
    for (const auto& output : whole.outputs)
      if (output.kind == OutputKind::state) written.push_back(array_of(output.name));
  }

  std::byte* memory_of(size_t r) {
    const Region& region = program.regions[r];
    if (region.kind != Region::Kind::state) return lender ? lender->executor->at(lent[r]) : nullptr;
    Array* array = array_of(region.name);
    LS_CHECK(static_cast<int64_t>(array->local_bytes()) == region.bytes, "state ", region.name, " has ",
             array->local_bytes(), " bytes, and its program ", region.bytes);
    return home(*array);
  }
  // The place where the step reads a tensor of the state.
  std::byte* home(Array& array) {
    return plan.on_host.count(array.fqn) ? array.on_host(device) : array.on(device);
  }

  std::vector<std::byte*> places_of_state() {
    std::vector<std::byte*> out;
    for (Array* array : state) out.push_back(home(*array));
    return out;
  }
  // Brings the state to where the step reads it. Since this step was bound, another step may have moved an
  // array to the host and released its device memory.
  void bring_state() {
    device.enter();
    std::vector<std::byte*> now = places_of_state();
    if (now == places) return;
    forget_captured();
    again.reset();
    executor->rebind();
    places = std::move(now);
  }

  uint64_t state_version() const {
    uint64_t sum = 0;
    for (const Array* array : state) sum += array->version();
    return sum;
  }

  // Prepares a step: the state where the device reads it, its rounded weights, the step's inputs. The rounded
  // weights from the last step's update are valid, unless another writer has changed the state since.
  void prepare(const StepInput& input) {
    const Scalars scalars = scalars_of(input.step);
    prepare_state();
    fed->send(input, seed, scalars, *compute);
  }

  void prepare_state() {
    bring_state();
    if (!plan.kernels || written.empty() || state_version() != rounded_version) executor->refresh(*compute);
  }

  void enqueue() {
    exposed.begin();
    executor->record(recorder.get());
    executor->run(*compute);
    executor->record(nullptr);
  }

  // The first step runs call by call, because libraries load and prepare then. The second one is captured if
  // the device can; later ones replay it.
  void run_program(const std::function<bool()>& give_up) {
    executor->give_up_when(give_up);
    if (timing() || recorder ||
        give_up) {  // call by call, and captured again afterwards: the program's marks are gone
      forget_captured();
      return enqueue();
    }
    const auto& groups = executor->groups();
    const bool capture =
        !captured && ++runs == 2 && plan.options.capture &&
        std::all_of(groups.begin(), groups.end(), [](Group* one) { return one->capturable(); });
    if (capture) captured = device.capture(*compute, [this] { enqueue(); });
    if (capture && captured)
      logs::topic("plan", str("the step is one captured program of ", captured->nodes(), " nodes"));
    if (!captured) return enqueue();
    captured->launch(*compute);
    for (Group* one : groups) one->note_launch(str("step ", step_number), *compute);
  }
  void forget_captured() {
    captured.reset();
    runs = std::min<int64_t>(runs, 1);
  }

  // Results on the host: votes, then 8 bytes per metric and gate, then checksums of replicas.
  size_t sums_at() const { return 8 * (2 + program.metrics.size() + program.gates.size()); }
  size_t results_size() const { return sums_at() + 8 * program.replicas.size(); }
  void copy_results(bool checked) {
    auto copy = [&](size_t to, const Span& from) {
      device.copy(results.data() + to, executor->at(from), from.bytes, *compute);
    };
    copy(0, program.votes);
    size_t to = 16;
    for (const auto* outputs : {&program.metrics, &program.gates})
      for (const StepOutput& output : *outputs) {
        LS_CHECK(output.at.bytes == static_cast<int64_t>(size_of(output.dtype)), "metric ", output.name,
                 " is no scalar: ", output.at.bytes, " bytes");
        copy(to, output.at);
        to += 8;
      }
    if (checked && !program.replicas.empty()) copy(sums_at(), checksums());
  }
  StepResult read_results(const StepInput& input) {
    StepResult result;
    counted.clear();
    result.exposed = exposed.seconds();
    result.votes = results.as<int64_t>()[0];
    result.replicas_differ = results.as<int64_t>()[1] != 0;
    const std::byte* at = results.data() + 16;
    for (const StepOutput& metric : program.metrics) {
      const double value = get_double(metric.dtype, at, 0);
      if (metric.name == count_metric(counted.size())) counted.push_back(value);
      if (!is_later_count(metric.name)) result.metrics[metric.name] = value;
      at += 8;
    }
    for (size_t g = 0; g < program.gates.size(); ++g, at += 8) {
      const auto value = static_cast<float>(get_double(program.gates[g].dtype, at, 0));
      const float limit = g + 1 == program.gates.size() ? input.loss_limit : input.norm_limit;
      if (!is_within(value, limit)) result.applied = false;
    }
    if (input.check_replicas)
      result.replica_sums.assign(reinterpret_cast<const uint64_t*>(at),
                                 reinterpret_cast<const uint64_t*>(at) + program.replicas.size());
    return result;
  }
  Span checksums() const { return program.find(Region::Kind::result, "checksums of replicas"); }

  StepResult run(const StepInput& input) {
    step_number = input.step;
    device.enter();
    recorder = input.trace ? std::make_unique<StepRecorder>(*compute) : nullptr;
    phase("inputs", [&] { prepare(input); });
    phase(device.addressable() ? "run" : "enqueue", [&] { run_program(input.give_up); });
    phase("results", [&] {
      copy_results(input.check_replicas);
      for (Array* array : written)
        plan.on_host.count(array->fqn) ? array->host_wrote() : array->device_wrote(device);
      rounded_version = state_version();
    });
    if (!device.addressable()) phase("next batch", [&] { fed->fill_next(input); });
    phase("wait for the device", [&] { finish(); });
    StepResult result = read_results(input);
    if (result.replicas_differ) compare(*mesh.world, "behind a step", {fed->sent()});
    if (result.applied)
      for (Array* array : written) ++array->updates;
    if (recorder) result.traced = std::make_shared<TracedStep>(recorder->resolve(program, input.step));
    recorder.reset();
    return result;
  }
  // Work on the host.
  void phase(const char* name, const std::function<void()>& work) {
    const double began = recorder ? steady_seconds() : 0;
    work();
    if (recorder) recorder->host(name, began, steady_seconds());
  }

  std::vector<uint64_t> checksums_now() {
    std::vector<uint64_t> out(program.replicas.size());
    std::vector<Reductions::Bytes> parts;  // the state's replicas come first
    bring_state();
    for (const Replica& one : program.replicas)
      if (program.regions[one.at.region].kind == Region::Kind::state)
        parts.push_back({executor->at(one.at), static_cast<size_t>(one.at.bytes)});
    if (parts.empty()) return out;
    Buffer wanted(sizeof(int64_t), device.memory()), words(parts.size() * sizeof(uint64_t), device.memory());
    const int64_t yes = 1;
    copy_to_device(device, wanted.data(), &yes, sizeof yes);
    reductions->checksums(parts, words.as<uint64_t>(), wanted.as<int64_t>(), *compute);
    finish();
    copy_to_host(device, out.data(), words.data(), words.bytes());
    return out;
  }

  // Runs a separate program in the memory of the step's program, except for the blocks' memory.
  void inspect(const StepInput& input, const Graph& graph, std::shared_ptr<const KernelSet> kernels,
               const CompileOptions& options, const Visit& visit) {
    bring_state();
    StepProgram looked;
    std::unique_ptr<Executor> looking;
    std::string refused;
    try {
      looked = build_inspection(plan, inspected_body(graph, options), rank());
      looking = std::make_unique<Executor>(Executor::Parts{
          looked, plan.phases.whole, plan.options, plan.kernels, mesh, device, *reductions,
          [this, &looked](size_t r) -> std::byte* {
            const Region& region = looked.regions[r];
            return region.kind == Region::Kind::arena ? nullptr
                                                      : executor->at(program.find(region.kind, region.name));
          },
          std::move(kernels), &options, visit});
      target.finish_library_calls();
    } catch (const UserError& error) { refused = error.what(); }
    agree(*mesh.world, refused);
    forget_captured();  // the marks of captured work are lost with the work enqueued here
    prepare(input);
    exposed.begin();
    looking->run(*compute);
    finish();
  }
  ProgramBlock inspected_body(const Graph& graph, const CompileOptions& options) const {
    BlockSource source{graph};
    for (size_t o = 0; o < graph.outputs.size(); ++o) source.groups.push_back({static_cast<int>(o)});
    for (const auto& weight : plan.phases.streamed) source.streamed.push_back(weight.input);
    source.gather = gather_options(plan.options);
    return plan_block(std::move(source), options);
  }

  // Runs next to the step's program, which stays captured; its groups are not measured.
  std::vector<uint64_t> recompute(StepInput input, int64_t micro_batch) {
    bring_state();
    std::string refused;
    if (!again) try {
        again = std::make_unique<Recomputation>(plan, program, *executor, rank(), plain, device, *reductions);
      } catch (const UserError& error) { refused = error.what(); }
    agree(*mesh.world, refused);
    prepare_state();
    input.vote = input.replica_word = 0;
    input.check_replicas = true;  // the checksums are those of the answers
    fed->send_scalars(input, seed, scalars_of(input.step), *compute);
    return again->run(input, micro_batch, *compute, [this] { finish(again->groups()); });
  }

  // Waits for the device, and checks the peers meanwhile, because a collective that never ends keeps the
  // device busy for ever.
  void finish() { finish(executor->groups()); }
  void finish(const std::vector<Group*>& groups) {
    if (device.addressable()) return compute->synchronize();
    auto end = compute->record();
    wait_on_host(*end, groups);
    reductions->check();
  }

  StepPlan plan;
  const Target& target;
  Device& device;
  ExposedTime exposed;
  const LiveMesh plain;
  LiveMesh mesh;  // its groups measured
  uint64_t seed;
  std::function<Array*(const std::string&)> array_of;
  std::function<Scalars(int64_t)> scalars_of;
  LanePlan lanes;
  const Impl* lender;      // null: none
  std::vector<Span> lent;  // per region of the program, in the lender's
  std::unique_ptr<Reductions> reductions;
  std::vector<Array*> state, written;
  std::vector<std::byte*> places;  // of `state`, to which the program is bound
  std::string certificate;
  StepProgram program;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<StepInputs> fed;
  std::unique_ptr<Recomputation> again;  // created at the first request
  Buffer results;
  std::unique_ptr<StepRecorder> recorder;  // of a traced step
  int64_t runs = 0, step_number = 0;
  std::vector<double> counted;  // in the last run
  uint64_t rounded_version = ~uint64_t{0};
  // After all members that its work reads: its destructor waits for that work.
  std::unique_ptr<Stream> compute;
  std::unique_ptr<CapturedWork> captured;  // before its buffers and the group
};

Step::Step(StepPlan plan, const LiveMesh& mesh, uint64_t seed,
           std::function<Array*(const std::string&)> array_of, std::function<Scalars(int64_t)> scalars_of,
           const Step* lender)
    : impl_(std::make_unique<Impl>(std::move(plan), mesh, seed, std::move(array_of), std::move(scalars_of),
                                   lender ? lender->impl_.get() : nullptr)) {}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;

StepResult Step::run(const StepInput& input) { return impl_->run(input); }
void Step::inspect(const StepInput& input, const Graph& body, std::shared_ptr<const KernelSet> kernels,
                   const CompileOptions& options, const Visit& visit) {
  impl_->inspect(input, body, std::move(kernels), options, visit);
}
std::vector<uint64_t> Step::recompute(const StepInput& input, int64_t micro_batch) {
  return impl_->recompute(input, micro_batch);
}
const std::vector<Replica>& Step::replicas() const { return impl_->program.replicas; }
std::vector<uint64_t> Step::checksums_now() { return impl_->checksums_now(); }
const std::vector<double>& Step::counted() const { return impl_->counted; }
const std::string& Step::certificate() const { return impl_->certificate; }
const StepPlan& Step::plan() const { return impl_->plan; }
const StepProgram& Step::program() const { return impl_->program; }
const LanePlan& Step::lane_plan() const { return impl_->lanes; }
int64_t Step::arena_bytes() const { return held_bytes(impl_->program).arena; }
int64_t Step::reduction_bytes() const { return held_bytes(impl_->program).reduction(); }
std::string Step::describe() const { return impl_->program.blocks[kBodyBlock].text(); }
std::vector<std::pair<std::string, double>> Step::waits() const { return impl_->exposed.waits(); }
std::vector<CallTime> Step::call_times() const { return impl_->executor->times(kBodyBlock); }
std::map<std::string, double> Step::instruction_seconds() const { return impl_->executor->seconds(); }

}  // namespace lockstep::compiler
