// Ops of one's own: scalar code, expansions, C++ source and host functions train with the same bits on every
// mesh; what is wrong with a definition is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "compiler/compile/compile.h"
#include "compiler/compile/fingerprint.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/nn/layers.h"
#include "core/optim/sgd.h"
#include "core/table/register.h"
#include "distributed/local/local_world.h"
#include "tests/train/own/own_ops_case.h"

namespace lockstep {
namespace {

using namespace testing;

struct Arrangement {
  std::string name;
  Mesh mesh{{1}, {"dp_replicate"}};
  compiler::Backend backend = compiler::Backend::native;
};
struct Result {
  std::string hash, certificate;
  double loss = 0;
};
using Function = std::function<Tensor(const Tensor& x, const Tensor& w)>;
// Trains w of y = f(linear(x)) for three steps.
Result train(const std::function<Function()>& make, const Arrangement& how) {
  Result out;
  distributed::local_mesh(static_cast<int>(how.mesh.size()), how.mesh, [&](LiveMesh& mesh) {
    const Function function = make();  // every rank registers
    State state(mesh, 3);
    Linear layer(state / "layer", 6, 5);
    Parameter w = state.root().parameter("w", {5}, init::normal(1));
    Sgd sgd(state / "optim", {.lr = 0.05});
    compiler::CompileOptions options;
    options.backend = how.backend;
    compiler::Step step = compile(
        state, {{"x", DType::f32, {2, 6}}}, {12, 2, 0},
        [&](const Tensors& batch) {
          Tensor scale = w(batch[0]);
          Loss loss = mean_loss(square(function(layer(batch[0]), scale)));
          sgd.update(grad(loss, state.parameters()));
          return loss;
        },
        options);
    state.materialize();
    double loss = 0;
    for (int64_t i = 1; i <= 3; ++i)
      loss = step.run({i,
                       [&](int64_t first, int64_t count, const std::vector<void*>& into) {
                         for (int64_t e = 0; e < count * 6; ++e)
                           static_cast<float*>(into[0])[e] = philox::uniform(philox::bits(
                               5, 1, static_cast<uint64_t>(i), static_cast<uint64_t>(first * 6 + e)));
                       }})
                 .metrics.at("loss");
    const std::string hash = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank == 0) out = {hash, step.certificate(), loss};
  });
  return out;
}
void expect_one_result(const std::function<Function()>& make) {
  const Result alone = train(make, {"one rank"});
  for (const Arrangement& how :
       {Arrangement{"eager", {{1}, {"dp_replicate"}}, compiler::Backend::eager},
        Arrangement{"ddp 2", {{2}, {"dp_replicate"}}}, Arrangement{"ddp 3", {{3}, {"dp_replicate"}}},
        Arrangement{"fsdp 2", {{2}, {"dp_shard"}}}}) {
    SCOPED_TRACE(how.name);
    const Result other = train(make, how);
    EXPECT_EQ(other.hash, alone.hash);
    EXPECT_EQ(other.loss, alone.loss);
  }
  const Result slow = train(make, {"reference", {{1}, {"dp_replicate"}}, compiler::Backend::reference});
  EXPECT_NEAR(slow.loss, alone.loss, 1e-5);
}

TEST(RegisteredOps, ScalarCodeTrains) {
  const auto own = [] {
    const OpId op = register_op(swish());
    return [=](const Tensor& x, const Tensor& w) {
      return apply1(op, {x}, {{"k", 1.5}}) * broadcast_to(w, x.shape());
    };
  };
  expect_one_result(own);
  const Result built_in = train(
      [] {
        return [](const Tensor& x, const Tensor& w) {
          return x * sigmoid(x * 1.5) * broadcast_to(w, x.shape());
        };
      },
      {"one rank"});
  EXPECT_NEAR(train(own, {"one rank"}).loss, built_in.loss, 1e-6);
}
TEST(RegisteredOps, SourceTrains) {
  const auto own = [] {
    const OpId op = register_op(squeeze_rows());
    return [=](const Tensor& x, const Tensor& w) { return apply1(op, {x, w}); };
  };
  expect_one_result(own);
  OpDefinition expanded = squeeze_rows("mine::squeeze_rows_expanded");
  expanded.cpp.clear(), expanded.cuda.clear();
  const auto ops = [=] {
    const OpId op = register_op(expanded);
    return [=](const Tensor& x, const Tensor& w) { return apply1(op, {x, w}); };
  };
  expect_one_result(ops);
  EXPECT_NEAR(train(own, {"one rank"}).loss, train(ops, {"one rank"}).loss, 1e-6);
  EXPECT_NE(train(own, {"one rank"}).certificate, train(ops, {"one rank"}).certificate);
}
TEST(RegisteredOps, HostFunctionsTrain) {
  expect_one_result([] {
    const OpId op = register_op(host_softplus());
    return [=](const Tensor& x, const Tensor& w) {
      return apply1(op, {x}, {{"beta", 2.0}}) * broadcast_to(w, x.shape());
    };
  });
}

// The handle of a name is one for all time, and a definition that comes twice is one.
TEST(RegisteredOps, TheSameDefinitionTwiceIsOne) {
  std::vector<std::thread> threads;
  std::vector<OpId> made(4);
  for (OpId& op : made) threads.emplace_back([&op] { op = register_op(swish("mine::from_threads")); });
  for (std::thread& thread : threads) thread.join();
  for (OpId op : made) EXPECT_EQ(op, intern("mine::from_threads"));
  EXPECT_EQ(std::count_if(all_ops().begin(), all_ops().end(),
                          [](const Op* row) { return row->id.name() == "mine::from_threads"; }),
            1);
  EXPECT_NE(definition_hash(made[0]), definition_hash(register_op(swish("mine::of_another_name"))));
  EXPECT_EQ(definition_hash(ops::add), "");
}

// Ranks compare the definitions.
TEST(RegisteredOps, TheirCodeIsInTheFingerprint) {
  const OpId op = register_op(swish("mine::in_fingerprint"));
  distributed::local_mesh(1, {{1}, {"dp_replicate"}}, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    const compiler::StepPlan plan =
        compiler::plan_step(state, mesh.words, {{"x", DType::f32, {2, 6}}}, {4, 2, 0},
                            [](const Tensors& batch) { return mean_loss(batch[0]); }, {});
    for (const FingerprintPart& part : compiler::plan_parts(plan, state)) {
      if (part.name != "set of registered ops") continue;
      const std::pair<std::string, std::string> line{"mine::in_fingerprint", definition_hash(op)};
      EXPECT_NE(std::find(part.lines.begin(), part.lines.end(), line), part.lines.end());
      return;
    }
    ADD_FAILURE() << "no part names registered ops";
  });
}

template <class F>
void refused(const F& change, const std::string& words, OpDefinition d = swish("bad::op")) {
  change(d);
  try {
    register_op(d);
    ADD_FAILURE() << "accepted; expected: " << words;
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("[register_op] \""), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("at registered_ops_test.cpp:"), std::string::npos) << e.what();
  }
}
using D = OpDefinition;
TEST(RegisteredOps, DefinitionsThatAreNotWholeAreRefused) {
  for (const char* name : {"gelu3", "Mine::gelu3", "mine::", "::gelu3", "mine:gelu3", "mine::ge lu", "add"})
    refused([=](D& d) { d.name = name; }, "a name has at least two parts of small letters, digits and _");
  refused([](D& d) { d.inputs = 0; }, "it has 0 inputs; 1 to 9 are possible");
  refused([](D& d) { d.placement = "columns"; },
          "its placement is \"columns\"; known: \"pointwise\", \"rows\"");
  refused([](D& d) { d.scalar.clear(); }, "it has nothing to run: give scalar, expand, cpp, cuda or host");
  refused([](D& d) { d.host = softplus_on_host; },
          "it has scalar code and code of its own; give one of them");
  refused([](D& d) { d.formula = {}; },
          "nothing says what it computes: give formula, formula_of_all or expand");
  refused([](D& d) { d.samples.clear(); }, "it has no samples");
  refused([](D& d) { d.scalar = "{0} * {1}"; },
          "its scalar code names {1}, which is neither one of its 1 operands {0}... nor an attribute");
  refused([](D& d) { d.scalar = "{0} * {z}"; }, "its scalar code names {z}");
  refused([](D& d) { d.scalar = "{0} * {k"; }, "its scalar code has a { without a }");
  refused([](D& d) { d.scalar = "sinf({0} * {k})"; },
          "its scalar code calls sinf, which kernels do not have; did you mean ls_sin? They have ls_abs, "
          "ls_atan, ");
  refused([](D& d) { d.scalar = "{0} * std::exp ({k})"; },
          "its scalar code calls exp, which kernels do not have; did you mean ls_exp? ");
  refused([](D& d) { d.scalar = "ls_gelu({0}) * {k}"; },
          "its scalar code calls ls_gelu, which kernels do not");
  refused([](D& d) { d.placement = "rows"; }, "formula is of one element, and its placement is \"rows\"");
  refused([](D& d) { d.samples[0].attrs = {}; }, "its sample 0 fails: it has no attribute \"k\"");
  refused([](D& d) { d.samples[1].in.push_back(d.samples[1].in[0]); },
          "its sample 1 fails: takes 1 input, got 2");
  refused([](D& d) { d.samples[0].in[0].dtype = DType::i32; },
          "its sample 0 fails: input 0 is i32[3,5], needs floats; convert it?");
  refused(
      [](D& d) { d.infer = [](const InferContext& c) -> std::vector<TypedShape> { c.fail("never fits"); }; },
      "its sample 0 fails: never fits");
  refused(
      [](D& d) { d.infer = [](const InferContext&) { return std::vector<TypedShape>{{DType::f32, {7}}}; }; },
      "its type rule gives f32[7] for output 0, and a pointwise op keeps the shape of f32[3,5]");
  refused([](D& d) { d.cpp = "void f();"; }, "its C++ source defines no OWN_FN void run",
          squeeze_rows("bad::op"));
  refused([](D& d) { d.cuda = "void f();"; }, "its CUDA source defines no OWN_FN void run",
          squeeze_rows("bad::op"));
  refused([](D& d) { d.host = softplus_on_host; }, "it has C++ source and a host function",
          squeeze_rows("bad::op"));
  refused([](D& d) { d.dtypes = {DType::bf16}; },
          "its dtypes name bf16, which code of one's own does not compute in", squeeze_rows("bad::op"));
  refused([](D& d) { d.attrs = {{"mode", AttrType::word}}; },
          "its attribute \"mode\" is neither a flag nor a number", squeeze_rows("bad::op"));
  refused([](D& d) { d.placement = "ab,c->ab"; },
          "its sample 1 fails: placement rule \"ab,c->ab\" has 2 letters for f32[2,1,17]",
          squeeze_rows("bad::op"));
  refused([](D& d) { d.dtypes = {DType::i32}, d.samples[0].in[0].dtype = DType::i32; },
          "its sample 0 fails: the attribute \"k\" is 1.5 as i32: i32 holds only whole numbers");
  refused(
      [](D& d) {
        d.attrs = {{"n", AttrType::integer}};
        for (Sample& sample : d.samples) sample.attrs = {{"n", (int64_t{1} << 53) + 1}};
      },
      "the attribute \"n\" is 9007199254740993, and source takes doubles, which hold integers up to 2^53",
      squeeze_rows("bad::op"));
  refused([](D& d) { d.expand = [](const ExpandContext& c) { return Tensors{c.in[1]}; }; },
          "its expansion fails on a sample: [bad::op]", squeeze_rows("bad::op"));
  EXPECT_EQ(find_op(intern("bad::op")), nullptr);
}
// Every function that the table's own rows call may stand in scalar code, so that it is in every prelude.
TEST(RegisteredOps, ScalarCodeCallsWhatTheTablesRowsCall) {
  int calls = 0;
  for (const Op* row : all_ops()) {
    const std::string code(row->scalar.text);
    const size_t open = code.find('(');
    if (row->own || !code.starts_with("ls_") || open == std::string::npos || code.find("bits") < open ||
        code.find('{') < open)
      continue;
    OpDefinition d = swish("mine::calls");
    d.scalar = code.substr(0, open) + "({0})";
    d.name += str(calls++);
    register_op(d);
  }
  EXPECT_GE(calls, 20);
}
TEST(RegisteredOps, AnotherDefinitionOfANameIsRefused) {
  register_op(swish("mine::twice"));
  const std::string words = "another definition has this name; give one of them another name";
  refused([](D& d) { d.scalar = "{0} * {k}"; }, words, swish("mine::twice"));
  refused([](D& d) { d.cost = 26; }, words, swish("mine::twice"));
  refused([](D& d) { d.samples.pop_back(); }, words, swish("mine::twice"));
  refused([](D& d) { d.gradient = {}; }, words, swish("mine::twice"));
  refused([](D& d) { d.gradient = [](const VjpContext& c) { return Tensors{c.grad[0] * 2.0}; }; }, words,
          swish("mine::twice"));
  refused([](D& d) { d.formula = [](std::span<const double> x, const Attrs&) { return x[0]; }; }, words,
          swish("mine::twice"));
  register_op(squeeze_rows("mine::rows_twice"));
  refused([](D& d) { d.cpp += " "; }, words, squeeze_rows("mine::rows_twice"));
  refused([](D& d) { d.expand = [](const ExpandContext& c) { return Tensors{c.in[0] * 1.0}; }; }, words,
          squeeze_rows("mine::rows_twice"));
}

// What is wrong with a use of it.
template <class F>
void use_refused(const F& use, const std::string& words) {
  try {
    train([&] { return [&](const Tensor& x, const Tensor& w) { return use(x, w); }; }, {"one rank"});
    ADD_FAILURE() << "accepted; expected: " << words;
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}
TEST(RegisteredOps, UsesThatDoNotFitAreRefused) {
  const OpId op = register_op(swish());
  use_refused([&](Tensor x, Tensor) { return apply1(op, {x}); }, "[mine::swish] registered_ops_test.cpp:");
  use_refused([&](Tensor x, Tensor) { return apply1(op, {x}); }, "needs the attribute \"k\", a number");
  use_refused([&](Tensor x, Tensor) { return apply1(op, {x, x}, {{"k", 1.0}}); }, "takes 1 input, got 2");
  use_refused([&](Tensor x, Tensor) { return apply1(intern("mine::swisch"), {x}); },
              "no op is named \"mine::swisch\"; did you mean \"mine::swish\"?");
  OpDefinition none = swish("mine::no_gradient");
  none.gradient = {};
  const OpId dead = register_op(none);
  use_refused([&](Tensor x, Tensor) { return apply1(dead, {x}, {{"k", 1.0}}); },
              "[mine::no_gradient] registered_ops_test.cpp:");
  use_refused([&](Tensor x, Tensor) { return apply1(dead, {x}, {{"k", 1.0}}); }, "this op has no gradient");
  OpDefinition two = swish("mine::two_gradients");
  two.gradient = [](const VjpContext& c) { return Tensors{c.grad[0], c.grad[0]}; };
  const OpId wrong = register_op(two);
  use_refused([&](Tensor x, Tensor) { return apply1(wrong, {x}, {{"k", 1.0}}); },
              "its gradient gives 2 tensors for 1 inputs; give one per input");
  OpDefinition shape = swish("mine::shape_gradient");
  shape.gradient = [](const VjpContext& c) { return Tensors{sum(c.grad[0])}; };
  const OpId other = register_op(shape);
  use_refused([&](Tensor x, Tensor) { return apply1(other, {x}, {{"k", 1.0}}); },
              "its gradient is f32[] for input 0, which is f32[2,5]; a gradient has the type of its input");
  OpDefinition cuda = squeeze_rows("mine::cuda_alone");
  cuda.cpp.clear(), cuda.expand = {};
  cuda.formula_of_all = [](const std::vector<DoubleTensor>& in, const Attrs&) { return std::vector{in[0]}; };
  cuda.gradient = [](const VjpContext& c) { return Tensors{c.grad[0], {}}; };
  const OpId far = register_op(cuda);
  use_refused([&](Tensor x, Tensor w) { return apply1(far, {x, w}); },
              "it has code only for CUDA, and the step runs on ");
  OpDefinition broken = squeeze_rows("mine::broken");
  broken.cpp = "OWN_FN void run(const Tensor* in) { this is no C++; }";
  const OpId text = register_op(broken);
  use_refused([&](Tensor x, Tensor w) { return apply1(text, {x, w}); }, "error:");
}

}  // namespace
}  // namespace lockstep
