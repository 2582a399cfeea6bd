// One step on one rank.
#include "compiler/run/step.h"

#include <chrono>
#include <cstring>

#include "compiler/run/certificate.h"
#include "compiler/run/tail.h"
#include "compiler/run/update.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ir/walk.h"

namespace lockstep {

namespace {
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
}  // namespace

struct Step::Impl {
  Impl(StepPlan given, const LiveMesh& live, uint64_t seed_in, std::function<Array*(const std::string&)> arrays,
       std::function<Scalars(int64_t)> scalars)
      : plan(std::move(given)), mesh(live), seed(seed_in), array_of(std::move(arrays)), scalars_of(std::move(scalars)) {
    lanes = LanePlan{plan.micro_batches, plan.lanes, mesh.data->size(), mesh.data->rank()};
    const Graph& whole = plan.phases.whole;
    table.at.assign(whole.values.size(), nullptr);
    for (const auto& input : whole.inputs) {
      const Value& value = whole[input.value];
      if (input.kind == InputKind::state) {
        Array* array = array_of(input.name);
        LS_CHECK(array && array->data, "state ", input.name, " is not allocated");
        table.at[static_cast<size_t>(input.value)] = array->data.data();
      } else if (input.kind == InputKind::scalar) {
        table.own(input.value, size_of(value.dtype));
      }
    }
    parts = make_executables(plan);
    for (const auto& bucket : plan.phases.buckets) {
      std::vector<Shape> shapes;
      for (int output : bucket) shapes.push_back(plan.body[plan.body.outputs[static_cast<size_t>(output)].value].shape);
      reducers.emplace_back(shapes, lanes, plan.options.threads);
    }
    auto [first, number] = lanes.micro_batch_range(lanes.rank);
    first_micro = first;
    micro_count = number;
    for (int64_t j = 0; j < number; ++j) {
      batch.emplace_back();
      for (const auto& field : plan.fields) batch.back().emplace_back(static_cast<size_t>(numel(field.shape)) * size_of(field.dtype));
    }
    for (NodeId n : plan.phases.counts) {
      ValueId local = whole.nodes[static_cast<size_t>(n)].outputs[0];
      LS_CHECK(numel(whole[local].shape) == 1 && whole[local].dtype == DType::i64, "a count is one i64");
      // Its value after the all_reduce: what reads the term is the start, and what reads the start is the wait.
      const auto readers = users_of(whole);
      auto only_reader = [&](ValueId v) -> const Node& {
        LS_CHECK(readers[static_cast<size_t>(v)].size() == 1, "a count on its way is read once");
        return whole.nodes[static_cast<size_t>(readers[static_cast<size_t>(v)][0])];
      };
      summed.push_back(only_reader(only_reader(local).outputs[0]).outputs[0]);
      table.own(summed.back(), sizeof(int64_t));
    }
    tail = std::make_unique<Tail>(Tail::Parts{plan.phases, mesh, table, reducers, parts.fragments, plan.kernels, plan.options, array_of,
                                              [this](const Phase& phase) { return inputs_of(phase, -1); }});
    certificate = certificate_of(plan, parts);
  }

  // Pointers of a phase's inputs; `micro` is the local index of the micro-batch for batch fields.
  std::vector<void*> inputs_of(const Phase& phase, int64_t micro) {
    std::vector<void*> out;
    for (size_t i = 0; i < phase.graph.inputs.size(); ++i) {
      const GraphInput& input = phase.graph.inputs[i];
      if (input.kind == InputKind::batch) {
        LS_CHECK(micro >= 0, "batch field ", input.name, " is read outside a micro-batch");
        size_t f = 0;
        while (f < plan.fields.size() && plan.fields[f].name != input.name) ++f;
        LS_CHECK(f < plan.fields.size(), "no batch field ", input.name);
        out.push_back(batch[static_cast<size_t>(micro)][f].data());
      } else {
        void* pointer = table.at[static_cast<size_t>(phase.inputs[i])];
        LS_CHECK(pointer, "input ", input.name, " of a phase has no value");
        out.push_back(pointer);
      }
    }
    return out;
  }

  void set_scalar(ValueId id, double number, int64_t integer) {
    const Value& value = plan.phases.whole[id];
    if (is_float(value.dtype))
      set_double(value.dtype, table.at[static_cast<size_t>(id)], 0, number);
    else
      set_int(value.dtype, table.at[static_cast<size_t>(id)], 0, integer);
  }

  void set_scalars(const StepInput& input) {
    Scalars scalars = scalars_of(input.step);
    for (const auto& in : plan.phases.whole.inputs) {
      if (in.kind != InputKind::scalar) continue;
      if (in.name == "rng.seed")
        set_scalar(in.value, 0, static_cast<int64_t>(seed));
      else if (in.name == "rng.step")
        set_scalar(in.value, 0, input.step);
      else if (in.name == "rng.sample")
        sample = in.value;
      else {
        auto found = scalars.find(in.name);
        LS_CHECK(found != scalars.end(), "no value for the scalar ", in.name);
        set_scalar(in.value, found->second, static_cast<int64_t>(found->second));
      }
    }
  }

  void set_sample(int64_t local) {
    if (sample != kNoValue) set_scalar(sample, 0, (first_micro + local) * plan.fields[0].shape[0]);
  }

  // Token counts of all micro-batches, summed as integers over the ranks, before any backward is seeded.
  void run_counts(int64_t vote) {
    size_t n = plan.phases.counts.size();
    std::vector<int64_t> totals(n + 1, 0);
    totals[n] = vote;
    for (int64_t j = 0; j < micro_count; ++j) {
      set_sample(j);
      parts.count->run(inputs_of(plan.phases.count, j));
      for (size_t c = 0; c < n; ++c) totals[c] += *static_cast<const int64_t*>(parts.count->output(c));
    }
    if (mesh.data->size() > 1) {
      double start = now();
      all_reduce(*mesh.data, {totals.data(), totals.data(), static_cast<int64_t>(n) + 1, DType::i64, ReduceOp::sum}, "count");
      times.wait_s += now() - start;
    }
    votes = totals[n];
    for (size_t c = 0; c < n; ++c) std::memcpy(table.at[static_cast<size_t>(summed[c])], &totals[c], sizeof(int64_t));
    parts.seed->run(inputs_of(plan.phases.seed, -1));
    for (size_t o = 0; o < plan.phases.seed.outputs.size(); ++o)
      table.at[static_cast<size_t>(plan.phases.seed.outputs[o])] = const_cast<void*>(parts.seed->output(o));
  }

  void start_exchange(size_t bucket) {
    logs::topic("collectives", str("exchange ", bucket, " of ", reducers.size(), " started: ", reducers[bucket].sent_bytes(), " bytes"));
    reducers[bucket].start(*mesh.data, *compute, str("exchange ", bucket));
  }

  void run_bodies() {
    for (auto& reducer : reducers) reducer.begin();
    for (int64_t j = 0; j < micro_count; ++j) {
      set_sample(j);
      bool last = j + 1 == micro_count;
      parts.body->run(inputs_of(plan.phases.body, j), [&](int g) {
        auto& reducer = reducers[static_cast<size_t>(g)];
        std::vector<const void*> gradients;
        for (int output : plan.phases.buckets[static_cast<size_t>(g)]) gradients.push_back(parts.body->output(static_cast<size_t>(output)));
        reducer.push(first_micro + j, gradients);
        // The last micro-batch's gradients travel while the rest of its backward runs.
        if (last) start_exchange(static_cast<size_t>(g));
      });
    }
    if (micro_count == 0)
      for (size_t g = 0; g < reducers.size(); ++g) start_exchange(g);
  }

  StepResult run(const StepInput& input) {
    times = {};
    double start = now();
    set_scalars(input);
    int64_t per = plan.fields[0].shape[0];
    for (int64_t j = 0; j < micro_count; ++j) {
      std::vector<void*> fields;
      for (auto& buffer : batch[static_cast<size_t>(j)]) fields.push_back(buffer.data());
      input.fill((first_micro + j) * per, per, fields);
    }
    run_counts(input.vote);
    double counted = now();
    run_bodies();
    double done = now();
    tail->run();
    times.count_s = counted - start;
    times.body_s = done - counted;
    times.tail_s = now() - done;
    times.wait_s += tail->wait_s();
    StepResult result;
    result.votes = votes;
    for (const auto& output : plan.phases.whole.outputs)
      if (output.kind == OutputKind::metric) {
        const Value& value = plan.phases.whole[output.value];
        LS_CHECK(numel(value.shape) == 1, "metric ", output.name, " is ", shape_text(value.dtype, value.shape));
        result.metrics[output.name] = get_double(value.dtype, table.at[static_cast<size_t>(output.value)], 0);
      }
    return result;
  }

  StepPlan plan;
  LiveMesh mesh;
  uint64_t seed;
  std::function<Array*(const std::string&)> array_of;
  std::function<Scalars(int64_t)> scalars_of;
  LanePlan lanes;
  ValueTable table;
  StepExecutables parts;
  std::vector<LaneReducer> reducers;
  std::vector<std::vector<Buffer>> batch;  // per local micro-batch, per field
  int64_t first_micro = 0, micro_count = 0;
  ValueId sample = kNoValue;
  std::vector<ValueId> summed;  // per count: its value summed over the ranks
  std::unique_ptr<Stream> compute = inline_stream();
  std::unique_ptr<Tail> tail;
  std::string certificate;
  StepTimes times;
  int64_t votes = 0;
};

Step::Step(StepPlan plan, const LiveMesh& mesh, uint64_t seed, std::function<Array*(const std::string&)> array_of,
           std::function<Scalars(int64_t)> scalars_of)
    : impl_(std::make_unique<Impl>(std::move(plan), mesh, seed, std::move(array_of), std::move(scalars_of))) {}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;

StepResult Step::run(const StepInput& input) { return impl_->run(input); }
const std::string& Step::certificate() const { return impl_->certificate; }
const StepPlan& Step::plan() const { return impl_->plan; }
const LanePlan& Step::lane_plan() const { return impl_->lanes; }
int64_t Step::arena_bytes() const { return impl_->parts.arena_bytes(); }
int64_t Step::reduction_bytes() const {
  int64_t bytes = impl_->tail->bytes();
  for (const auto& reducer : impl_->reducers) bytes += reducer.bytes();
  return bytes;
}
std::string Step::describe() const { return impl_->parts.body->describe(); }
StepTimes Step::times() const { return impl_->times; }
std::vector<CallTime> Step::call_times() const { return impl_->parts.body->times(); }

}  // namespace lockstep
