// Bodies from the op table, from layers and from models.
#include "tests/gpu/kernel_bodies.h"

#include <algorithm>

#include "compiler/autodiff/autodiff.h"
#include "compiler/fuse/fuse.h"
#include "compiler/lower/join.h"
#include "compiler/lower/simplify.h"
#include "compiler/trace/trace.h"
#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ir/walk.h"
#include "core/models/family.h"
#include "core/nn/state.h"
#include "core/optim/gradients.h"
#include "tests/sweep/cases.h"
#include "tests/unit/compiler/fuse_case.h"

namespace lockstep {

using namespace compiler;

Graph expanded(const Graph& graph, const std::vector<OpId>& keep) {
  auto builder = std::make_shared<Builder>();
  builder->graph.mesh = graph.mesh;
  PerValue<ValueId> map(graph.values.size(), kNoValue);
  for (const auto& input : graph.inputs)
    map[input.value] =
        builder->graph.add_input(input.kind, input.name, graph[input.value].dtype, graph[input.value].shape);
  bool again = false;
  for (const Node& node : graph.nodes) {
    const Op& row = op_row(node.op);
    std::vector<Tensor> inputs;
    for (ValueId v : node.inputs) inputs.emplace_back(builder, map[v]);
    const bool opens = row.expand && std::find(keep.begin(), keep.end(), node.op) == keep.end();
    auto made = opens ? row.expand({inputs, node.attrs, builder})
                      : apply_at(node.op, inputs, node.attrs, node.at, builder);
    for (size_t i = 0; i < made.size(); ++i) map[node.outputs[i]] = made[i].id();
    again = again || opens;
  }
  for (const auto& output : graph.outputs)
    builder->graph.add_output(output.kind, output.name, map[output.value]);
  return again ? expanded(builder->graph, keep) : prune(builder->graph);
}

std::vector<BodyCase> bodies_of(const Graph& graph, const std::string& title, const Sample& ranges,
                                bool fusion) {
  FuseOptions options;
  options.enabled = fusion;
  Graph fused = fuse(graph, options);
  std::vector<BodyCase> out;
  for (size_t n = 0; n < fused.nodes.size(); ++n)
    if (fused.nodes[n].body) out.push_back({str(title, " node ", n), *fused.nodes[n].body, ranges, 1});
  return out;
}

namespace {
void append(std::vector<BodyCase>& to, std::vector<BodyCase> more, double scale = 1) {
  for (auto& one : more) one.scale = scale, to.push_back(std::move(one));
}
Sample floats_in(double lo, double hi, int64_t int_lo = 0, int64_t int_hi = 5) {
  Sample out;
  out.lo = lo, out.hi = hi, out.int_lo = int_lo, out.int_hi = int_hi;
  return out;
}
}  // namespace

std::vector<BodyCase> sweep_bodies() {
  std::vector<BodyCase> out;
  sweep::for_each_case(
      [&](const sweep::Case& one) {
        Graph graph = one.graph;
        graph.mesh = Mesh{{}, {}};
        append(out, bodies_of(expanded(graph), one.title, one.sample), 10);
      },
      {DType::f64, DType::bf16, DType::f16});
  return out;
}

std::vector<BodyCase> layer_bodies(bool fusion) {
  std::vector<BodyCase> out;
  for (const auto& one : fuse_cases())
    append(out, bodies_of(expanded(one.graph), one.name, floats_in(0.2, 2.0), fusion), one.scale);
  return out;
}

std::vector<BodyCase> model_bodies() {
  std::vector<BodyCase> out;
  for (std::string kind : {"gpt", "llama"}) {
    LiveMesh mesh = solo_mesh();
    State state(mesh, 1);
    Json options = {{"vocab", 50304}, {"context", 1024}, {"width", 768},
                    {"depth", 2},     {"heads", 12},     {"dropout", 0.1}};
    if (kind == "llama") options.update({{"kv_heads", 4}});
    auto model = models::build(state.root(), kind, options);
    const Shape shape{2, 1024};
    Graph graph = trace(
        {{"ids", DType::i32, shape}, {"targets", DType::i32, shape}}, [&](const std::vector<Tensor>& batch) {
          Loss loss = cross_entropy(model.logits(batch[0], true), batch[1]);
          auto gradients = grad(loss, state.parameters()).values;
          for (size_t i = 0; i < gradients.size(); ++i)
            gradients[i].builder()->graph.add_output(OutputKind::value, str("grad", i), gradients[i].id());
          return loss;
        });
    PassContext context;
    graph = simplify(differentiate(std::move(graph), context), context);
    graph = join_pads(simplify(expanded(graph, {"linear", "sdpa", "sdpa_grad", "embedding_grad"}), context),
                      context);
    append(out, bodies_of(graph, kind, floats_in(0.2, 1)), 40);
  }
  return out;
}

std::vector<BodyCase> large_bodies() {
  std::vector<BodyCase> out;
  auto add = [&](const std::string& title, const std::function<void(CaseBuilder&)>& make,
                 const Sample& ranges, double scale) {
    CaseBuilder builder;
    make(builder);
    append(out, bodies_of(expanded(builder.take()), title, ranges), scale);
  };
  using B = CaseBuilder;
  for (DType dtype : {DType::bf16, DType::f32}) {
    const std::string type(name(dtype));
    for (Shape shape : {Shape{4096, 768}, Shape{1000, 1600}, Shape{77, 1001}, Shape{65, 12288}}) {
      const std::string size = str(type, shape);
      const DType wide = DType::f32;
      const Shape rows{shape[0]}, columns{shape[1]};
      add(
          "layer_norm " + size,
          [&](B& b) {
            for (Tensor& y :
                 apply("layer_norm", {b.in(dtype, shape), b.in(wide, columns), b.in(wide, columns)},
                       {{"eps", 1e-5}}))
              b.out(y);
          },
          floats_in(-2, 2), 8);
      add(
          "layer_norm_grad " + size,
          [&](B& b) {
            auto grads = apply("layer_norm_grad", {b.in(dtype, shape), b.in(dtype, shape),
                                                   b.in(wide, columns), b.in(wide, rows), b.in(wide, rows)});
            b.out(grads[0] + b.in(dtype, shape));
            b.out(grads[1]);
            b.out(grads[2]);
          },
          floats_in(-1, 1), 200);
      add("softmax " + size, [&](B& b) { b.out(softmax(b.in(dtype, shape))); }, floats_in(-8, 8), 2);
      add(
          "gelu_grad and bias_grad " + size,
          [&](B& b) {
            Tensor dx = apply1("gelu_grad", {b.in(dtype, shape), b.in(dtype, shape)},
                               {{"form", std::string("tanh")}});
            b.out(dx);
            b.out(convert(sum(convert(dx, DType::f32), {0}), dtype));
          },
          floats_in(-2, 2), 100);
      add(
          "gelu " + size,
          [&](B& b) { b.out(apply1("gelu", {b.in(dtype, shape)}, {{"form", std::string("tanh")}})); },
          floats_in(-4, 4), 4);
    }
    add(
        "cross_entropy " + type,
        [&](B& b) {
          auto loss = apply("cross_entropy", {b.in(dtype, {512, 50304}), b.in(DType::i32, {512})},
                            {{"ignore_index", int64_t{2}}});
          for (auto& one : loss) b.out(one);
        },
        floats_in(-4, 4, 0, 50304), 2000);
    // More rows than blocks, each of which has the next row on its way; some targets are no column.
    add(
        "cross_entropy and its gradient " + type,
        [&](B& b) {
          const Attrs attrs{{"ignore_index", int64_t{2}}};
          Tensor x = b.in(dtype, {283, 50304}), targets = b.in(DType::i32, {283}), dsum = b.in({});
          auto loss = apply("cross_entropy", {x, targets}, attrs);
          for (auto& one : loss) b.out(one);
          b.out(apply1("cross_entropy_grad", {dsum, x, targets, loss[2]}, attrs));
        },
        floats_in(-4, 4, -1000, 70000), 2000);
    add(
        "cross_entropy_grad " + type,
        [&](B& b) {
          b.out(apply1("cross_entropy_grad",
                       {b.in({}), b.in(dtype, {512, 50304}), b.in(DType::i32, {512}), b.in({512})},
                       {{"ignore_index", int64_t{2}}}));
        },
        floats_in(1, 3, 0, 50304), 8);
    add(
        "column sums " + type,
        [&](B& b) { b.out(convert(sum(convert(b.in(dtype, {65536, 768}), DType::f32), {0}), dtype)); },
        floats_in(-1, 1), 400);
    add(
        "dropout " + type,
        [&](B& b) {
          Tensor x = b.in(dtype, {37, 1001});
          b.out(apply1("dropout", {x, b.in(DType::i64, {}), b.in(DType::i64, {}), b.in(DType::i64, {})},
                       {{"p", 0.25}, {"stream", int64_t{77}}}) +
                x);
        },
        floats_in(-1, 1), 2);
  }
  add(
      "random bits",
      [](B& b) {
        b.out(apply1("rng_bits", {b.in(DType::i64, {}), b.in(DType::i64, {}), b.in(DType::i64, {})},
                     {{"shape", Shape{64, 1000}}, {"stream", int64_t{5}}}));
      },
      floats_in(0, 1, 3, 900), 1);
  add("sum of a million", [](B& b) { b.out(sum(b.in({1000, 1003}), {0, 1})); }, floats_in(0, 1), 200);
  return out;
}

std::vector<HostTensor> inputs_of(const BodyCase& one, uint64_t seed) {
  std::vector<HostTensor> out;
  for (const auto& input : one.body.inputs)
    out.push_back(
        sweep::random_tensor({one.body[input.value].dtype, one.body[input.value].shape}, one.ranges, seed++));
  return out;
}

}  // namespace lockstep
