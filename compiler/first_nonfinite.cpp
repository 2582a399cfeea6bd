// The search: the body unfused, every value an output that is looked at as soon as it is there.
#include "compiler/first_nonfinite.h"

#include <cmath>
#include <map>

#include "compiler/codegen/target.h"
#include "compiler/distribute_kernels.h"
#include "compiler/pipeline.h"
#include "compiler/program/block.h"
#include "compiler/program/places.h"
#include "compiler/runtime/executable.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/mesh/nonfinite.h"

namespace lockstep::compiler {

namespace {
// One body in single ops, its floats as outputs in the order in which they are made.
struct OpenBody {
  Graph graph;
  std::vector<const Node*> made_by;        // per output
  std::map<size_t, std::string> gradient;  // output -> FQN of the parameter whose gradient it is
};

// Per output of the body: the parameter whose gradient it is, "" for the loss.
std::vector<std::string> parameters_of(const Phases& phases) {
  const Graph& whole = phases.whole;
  std::vector<std::string> out(phases.body.outputs.size());
  auto producer = [&](ValueId v) -> const Node* {
    return !whole[v].producer.valid() ? nullptr : &whole.producer(v);
  };
  for (const auto& rows : phases.rows) out[rows.rows] = whole.node(rows.gather).attrs.word("of");
  for (const auto& output : whole.outputs) {
    const Node* made = output.kind == OutputKind::state ? producer(output.value) : nullptr;
    while (made && made->op == ops::wait) {  // gathered rows of the new weight
      const int index = whole[output.value].index;
      const Node* start = producer(made->inputs[0]);
      made = start && start->op == ops::all_gather_start ? producer(start->inputs[index]) : nullptr;
    }
    if (!made || made->inputs.size() < 2 || whole[output.value].shape.empty()) continue;
    const Node* sum = producer(made->inputs[1]);
    if (!sum || sum->op != ops::lane_sum) continue;
    const Node* wait = producer(sum->inputs[0]);
    const Node* start = wait && wait->op == ops::wait ? producer(wait->inputs[0]) : nullptr;
    if (!start || start->op != ops::lane_exchange_start) continue;
    const ValueId gradient = start->inputs[whole[sum->inputs[0]].index];
    for (size_t o = 0; o < phases.body.outputs.size(); ++o)
      if (phases.body.outputs[o] == gradient && out[o].empty()) out[o] = output.name;
  }
  return out;
}

OpenBody open_body(const StepPlan& plan, const CompileOptions& options, const State& state) {
  OpenBody out;
  out.graph = plan.phases.body.graph;
  if (options.backend != Backend::reference) {
    PassContext context{plan.phases.whole.mesh,
                        [&state](const std::string& fqn) { return state.layout(fqn); }, options};
    out.graph = run_passes(std::move(out.graph), phase_passes(), context);
  }
  std::map<ValueId, std::string> named;
  const auto parameters = parameters_of(plan.phases);
  for (size_t o = 0; o < out.graph.outputs.size(); ++o) named[out.graph.outputs[o].value] = parameters[o];
  out.graph.outputs.clear();
  const bool evaluated = options.backend == Backend::reference;  // every value is an array of its own
  const auto places = evaluated ? PerValue<Place>() : places_of(out.graph);
  for (const Node& node : out.graph.nodes) {
    if (node.op == ops::model_gather_start || node.op == ops::model_exchange_start) continue;
    for (ValueId v : node.outputs) {
      const Value& value = out.graph[v];
      if (!is_float(value.dtype)) continue;
      if (!evaluated)
        if (const Place& place = places[v];
            place.root != v || !is_dense({value.dtype, value.shape, place.strides}))
          continue;
      if (auto found = named.find(v); found != named.end() && !found->second.empty())
        out.gradient[out.graph.outputs.size()] = found->second;
      out.graph.add_output(OutputKind::value, "", v);
      out.made_by.push_back(&node);
    }
  }
  return out;
}

std::string place_text(const Shape& shape, int64_t at) {
  std::vector<int64_t> out(shape.size());
  for (size_t d = shape.size(); d-- > 0; at /= shape[d]) out[d] = at % shape[d];
  return shape.empty() ? "" : str(" at ", out);
}
std::string value_text(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

// What a rank saw. Minus infinity is often meant, as in a mask: it is told, and looked beyond.
struct Seen {
  int64_t micro_batch = -1, output = -1;  // of the first NaN or inf; -1: none
  std::string text, minus, data;          // data: the place in a field of that micro-batch
  double largest = 0;                     // of the gradients
  std::string largest_of;
};

class Look {
 public:
  Look(const OpenBody& body, Device& device) : body_(body), device_(device) {}
  void operator()(int64_t micro_batch, int output, const void* data) {
    const size_t at = output;
    const Value& value = body_.graph[body_.graph.outputs[at].value];
    const int64_t count = numel(value.shape);
    if (seen_.micro_batch >= 0) return;  // the first of this rank is known
    if (!device_.addressable()) {
      copy_.resize(count * size_of(value.dtype));
      copy_to_host(device_, copy_.data(), data, copy_.size());
      data = copy_.data();
    }
    auto text = [&](int64_t i) {
      const Node& node = *body_.made_by[at];
      const auto gradient = body_.gradient.find(at);
      return str(node.body ? fused_text(*node.body) : std::string(node.op.name()), " at ", node.at.text(),
                 " gives ", value_text(get_double(value.dtype, data, i)), place_text(value.shape, i), " of ",
                 shape_text(value.dtype, value.shape),
                 gradient == body_.gradient.end() ? "" : str(", the gradient of ", gradient->second));
    };
    for (int64_t i = first_nonfinite(value.dtype, data, count); i >= 0 && i < count; ++i) {
      const double element = get_double(value.dtype, data, i);
      if (std::isfinite(element)) continue;
      if (element < 0) {
        if (seen_.minus.empty()) seen_.minus = text(i);
        continue;
      }
      seen_.micro_batch = micro_batch, seen_.output = output, seen_.text = text(i);
      return;
    }
    if (auto gradient = body_.gradient.find(at); gradient != body_.gradient.end())
      for (int64_t i = 0; i < count; ++i)
        if (const double size = std::abs(get_double(value.dtype, data, i)); size > seen_.largest)
          seen_.largest = size, seen_.largest_of = gradient->second;
  }
  const Seen& seen() const { return seen_; }

 private:
  const OpenBody& body_;
  Device& device_;
  std::vector<std::byte> copy_;
  Seen seen_;
};

// Where a float of a micro-batch is not finite, as the data gives it; "" where all are. Infinities count
// where there is no NaN.
std::string place_in_data(const StepPlan& plan, const StepInput& input, int64_t micro_batch) {
  const int64_t samples = plan.fields[0].shape[0], first = micro_batch * samples;
  std::vector<std::vector<std::byte>> fields;
  std::vector<void*> places;
  for (const FieldType& field : plan.fields)
    places.push_back(
        fields.emplace_back(static_cast<size_t>(numel(field.shape)) * size_of(field.dtype)).data());
  input.fill(first, samples, places);
  std::string infinite;
  for (size_t f = 0; f < fields.size(); ++f) {
    const FieldType& field = plan.fields[f];
    if (!is_float(field.dtype)) continue;
    const Shape of(field.shape.begin() + 1, field.shape.end());
    for (int64_t i = 0, count = numel(field.shape); i < count; ++i) {
      const double value = get_double(field.dtype, places[f], i);
      if (std::isfinite(value) || (!std::isnan(value) && !infinite.empty())) continue;
      const int64_t sample = first + i / numel(of);
      const std::string name = input.name ? input.name(sample) : "";
      const std::string words =
          str("field \"", field.name, "\" is ", value_text(value), place_text(of, i % numel(of)),
              " of sample ", sample, " of the batch", name.empty() ? "" : str(" (", name, ")"));
      if (std::isnan(value)) return words;
      infinite = words;
    }
  }
  return infinite;
}

// One sentence of what all ranks saw.
FirstNonFinite settled(const Seen& mine, Group& world) {
  const Json own = {mine.micro_batch,          mine.output,     mine.text, mine.minus,
                    number_text(mine.largest), mine.largest_of, mine.data};
  std::vector<Json> all;
  for (const auto& text : all_gather_text(world, own.dump(-1, ' ', false, Json::error_handler_t::replace)))
    all.push_back(Json::parse(text));
  int best = -1;
  for (int r = 0; r < static_cast<int>(all.size()); ++r) {
    if (all[r][0] < 0) continue;
    auto place = [&](int of) { return std::pair(all[of][0].get<int64_t>(), all[of][1].get<int64_t>()); };
    if (best < 0 || place(r) < place(best)) best = r;
  }
  if (best >= 0) {
    const Json& first = all[best];
    const std::string minus = first[3], data = first[6];
    const std::string place =
        str("in micro-batch ", first[0].get<int64_t>(), " (rank ", best, "), ", first[2].get<std::string>());
    if (!data.empty()) return {str("the data is not finite: ", data, "; then, ", place), true};
    return {
        str("the first value that is not finite: ", place, minus.empty() ? "" : str("; before it, ", minus))};
  }
  double largest = 0;
  std::string of, minus;
  for (const Json& one : all) {
    const double size = std::strtod(one[4].get<std::string>().c_str(), nullptr);
    if (size > largest || (size == largest && one[5].get<std::string>() < of)) largest = size, of = one[5];
    if (minus.empty()) minus = one[3];
  }
  if (!minus.empty()) return {str("the first value that is not finite: ", minus)};
  return {
      str("every value of its micro-batches is finite, and the sum of the gradients, or of their squares, is "
          "not; the largest gradient of one "
          "micro-batch is ",
          number_text(static_cast<float>(largest)), ", of ", of)};
}
}  // namespace

FirstNonFinite first_nonfinite(Step& step, const StepInput& input, const State& state) {
  const LiveMesh& mesh = state.mesh();
  if (auto bad = find_nonfinite(state.arrays(), mesh))
    return {str("the state was not finite before the step: ", bad->text())};
  const StepPlan& plan = step.plan();
  CompileOptions options = plan.options;
  options.fusion = false;
  if (options.backend == Backend::eager)
    options.backend = Backend::native;  // the same op by op, and values share memory
  try {
    const OpenBody body = open_body(plan, options, state);
    std::shared_ptr<const KernelSet> kernels;
    if (options.backend != Backend::reference) {
      std::vector<KernelSource> sources;
      for (auto& source : kernels_of(body.graph, options))
        if (std::none_of(sources.begin(), sources.end(),
                         [&](const auto& have) { return have.name == source.name; }))
          sources.push_back(std::move(source));
      kernels = distribute_kernels(*mesh.world, options, sources);
    }
    Device& device = options.backend == Backend::reference ? cpu_device() : target_of(options).device();
    Look look(body, device);
    step.inspect(input, body.graph, kernels, options,
                 [&](int64_t micro_batch, int output, const void* data) { look(micro_batch, output, data); });
    Seen seen = look.seen();
    if (seen.micro_batch >= 0) seen.data = place_in_data(plan, input, seen.micro_batch);
    return settled(seen, *mesh.world);
  } catch (const UserError& error) {  // agreed upon: memory is out, or a kernel does not compile
    return {str("the first value that is not finite could not be looked for: ", error.what())};
  }
}

}  // namespace lockstep::compiler
