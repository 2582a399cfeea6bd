// What becomes of dtypes under a policy, op by op; that contractions are all in the table; and that nothing
// changes without one.
#include <gtest/gtest.h>

#include <functional>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/functions/spatial/convolution.h"
#include "core/ops/op.h"
#include "core/ops/precision.h"

namespace lockstep {
namespace {

constexpr auto F = DType::f32, H = DType::bf16, X = DType::f16, D = DType::f64, I = DType::i32,
               B = DType::boolean;

struct Traced {
  std::shared_ptr<Builder> builder = std::make_shared<Builder>();
  int made = 0;
  explicit Traced(std::optional<DType> policy) { builder->precision = policy; }
  Tensor operator()(DType dtype, Shape shape) {
    return {builder, builder->graph.add_input(InputKind::value, str("x", made++), dtype, std::move(shape))};
  }
};
std::string refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) { return error.what(); }
  return "";
}

struct Row {
  const char* name;
  DType result;  // under bf16
  std::function<Tensor(Traced&)> call;
  const char* strict = "";  // words without a policy; "": it is taken
};
const std::vector<Row> kRows{
    {"linear", H, [](auto& t) { return linear(t(F, {2, 4}), t(H, {3, 4}), t(F, {3})); },
     "dtypes differ: input f32[2,4], weight bf16[3,4]; convert one side?"},
    {"linear of f32", H, [](auto& t) { return linear(t(F, {2, 4}), t(F, {3, 4})); }},
    {"linear_float8", H, [](auto& t) { return linear_float8(t(F, {16, 32}), t(H, {48, 32}), t(F, {48})); },
     "dtypes differ: input f32[16,32], weight bf16[48,32]; convert one side?"},
    {"matmul", H, [](auto& t) { return matmul(t(H, {2, 4}), t(F, {4, 3})); },
     "dtypes differ: lhs bf16[2,4], rhs f32[4,3]; convert one side?"},
    {"einsum", H, [](auto& t) { return einsum("ij,jk->ik", {t(F, {2, 4}), t(H, {4, 3})}); }, "dtypes differ"},
    {"tensordot", H, [](auto& t) { return tensordot(t(F, {2, 4}), t(F, {4, 3}), {1}, {0}); }},
    {"convolution", H, [](auto& t) { return convolution(t(F, {1, 2, 5}), t(H, {3, 2, 3})); },
     "dtypes differ"},
    {"transposed", H,
     [](auto& t) { return convolution_transposed(t(F, {1, 2, 5}), t(F, {2, 3, 3}), t(H, {3})); },
     "bias is bf16[3], needs f32[3]"},
    {"sdpa", H,
     [](auto& t) { return sdpa(t(F, {1, 2, 1, 4}), t(H, {1, 2, 1, 4}), t(F, {1, 2, 1, 4}), true); },
     "dtypes differ"},
    {"sdpa with a bias", H,
     [](auto& t) {
       return sdpa(t(F, {1, 2, 1, 4}), t(F, {1, 2, 1, 4}), t(H, {1, 2, 1, 4}), {.bias = t(H, {2, 2})});
     },
     "needs the dtype of q f32[1,2,1,4]"},
    {"embedding", H, [](auto& t) { return embedding(t(F, {5, 4}), t(I, {2})); }},
    {"take", F, [](auto& t) { return take(t(F, {5, 4}), t(I, {2})); }},
    {"softmax", F, [](auto& t) { return softmax(t(H, {2, 4})); }},
    {"softmax of a dim", F, [](auto& t) { return softmax(t(H, {2, 4}), 0); }},
    {"log_softmax", F, [](auto& t) { return log_softmax(t(H, {2, 4})); }},
    {"logsumexp", F, [](auto& t) { return logsumexp(t(H, {2, 4}), {1}); }},
    {"exp", F, [](auto& t) { return exp(t(H, {2})); }},
    {"pow", F, [](auto& t) { return pow(t(H, {2}), t(F, {2})); },
     "dtypes differ: lhs bf16[2], rhs f32[2]; convert one side?"},
    {"sum", F, [](auto& t) { return sum(t(H, {2, 3}), {1}); }},
    {"mean", F, [](auto& t) { return mean(t(H, {2, 3}), {1}); }},
    {"var", F, [](auto& t) { return var(t(H, {2, 3}), {1}); }},
    {"norm", F, [](auto& t) { return norm(t(H, {2, 3}), 2); }},
    {"cumsum", F, [](auto& t) { return cumsum(t(H, {2, 3}), 1); }},
    {"sum of integers", I, [](auto& t) { return sum(t(I, {2, 3}), {1}); }},
    {"max", H, [](auto& t) { return max(t(H, {2, 3}), {1}); }},
    {"layer_norm", H, [](auto& t) { return layer_norm(t(H, {2, 4}), t(H, {4}), t(F, {4})); },
     "dtypes differ"},
    {"layer_norm of f32", F, [](auto& t) { return layer_norm(t(F, {2, 4}), t(H, {4}), t(H, {4})); },
     "dtypes differ"},
    {"rms_norm", H, [](auto& t) { return rms_norm(t(H, {2, 4}), t(F, {4})); }},
    {"batch_norm", H, [](auto& t) { return batch_norm(t(H, {2, 4, 3}), t(F, {4}), t(F, {4})).y; }},
    {"add", F, [](auto& t) { return t(H, {2, 3}) + t(F, {3}); },
     "dtypes differ: lhs bf16[2,3], rhs f32[3]; convert one side?"},
    {"mul of halves", F, [](auto& t) { return t(H, {2}) * t(X, {2}); }, "dtypes differ"},
    {"mul", H, [](auto& t) { return t(H, {2}) * 2.0; }},
    {"less", B, [](auto& t) { return t(H, {2}) < t(F, {2}); }, "dtypes differ"},
    {"where", F, [](auto& t) { return where(t(B, {2}), t(H, {2, 2}), t(F, {2})); }, "dtypes differ"},
    {"fma", F, [](auto& t) { return fma(t(H, {2}), t(H, {2}), t(F, {2})); }, "dtypes differ"},
    {"concat", F, [](auto& t) { return concat({t(H, {2}), t(F, {3})}, 0); }, "dtypes differ"},
    {"scatter", F, [](auto& t) { return scatter(t(H, {3}), 0, t(I, {2}), t(F, {2})); },
     "values are f32[2], need bf16[2]"},
    {"prelu", H, [](auto& t) { return prelu(t(H, {2, 3}), t(F, {3})); }, "dtypes differ"},
    {"gelu", H, [](auto& t) { return gelu(t(H, {2})); }},
    {"dropout", H, [](auto& t) { return dropout(t(H, {2}), 0.5); }},
    {"interpolate_linear", F, [](auto& t) { return interpolate_linear(t(F, {1, 1, 4}), {6}); }},
    {"mse_loss", F, [](auto& t) { return mse_loss(t(H, {2}), t(F, {2})).sum; }, "dtypes differ"},
    {"f64 stays", D, [](auto& t) { return matmul(t(D, {2, 4}), t(D, {4, 3})); }},
};

TEST(Policy, EachOpGivesWhatItsRowSays) {
  for (const Row& row : kRows) {
    Traced policy(H);
    EXPECT_EQ(row.call(policy).dtype(), row.result) << row.name;
    EXPECT_EQ(policy.builder->precision, H) << row.name << " leaves the policy as it was";
  }
}

TEST(Policy, WithoutOneDtypesAreStrict) {
  for (const Row& row : kRows) {
    Traced strict(std::nullopt);
    if (*row.strict)
      EXPECT_NE(refused([&] { row.call(strict); }).find(row.strict), std::string::npos)
          << row.name << ": " << refused([&] { row.call(strict); });
    else
      row.call(strict);
  }
}

// A new contraction needs a row; its gradient is not traced, and neither is what linear_float8 expands into.
TEST(Policy, EveryContractionHasARow) {
  for (const Op* op : all_ops()) {
    const bool gradient = op->id.name().find("_grad") != std::string_view::npos;
    if (op->library == Library::none || op->library == Library::row_sums || op->library == Library::float8 ||
        gradient)
      continue;
    EXPECT_EQ(computes(op->id.name()), Computes::policy) << op->id;
  }
  EXPECT_EQ(computes("add"), Computes::widest);
  EXPECT_EQ(computes("reshape"), Computes::as_given);
}

// The wider dtype meets a broadcast before its gradient is summed.
TEST(Policy, WidensBeforeItBroadcasts) {
  Traced t(H);
  Tensor y = t(F, {4, 3}) + t(H, {3});
  const Graph& graph = y.builder()->graph;
  int broadcasts = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != ops::broadcast) continue;
    ++broadcasts;
    EXPECT_EQ(graph[node.inputs[0]].dtype, F);
  }
  EXPECT_EQ(broadcasts, 1);
}

TEST(Policy, APartOfAModelMayBeExact) {
  Traced t(H);
  Tensor x = t(F, {2, 4}), w = t(F, {3, 4});
  {
    const Precision exact(x, F);
    EXPECT_EQ(linear(x, w).dtype(), F);
    {
      const Precision half(x, X);
      EXPECT_EQ(linear(x, w).dtype(), X);
    }
    EXPECT_EQ(linear(t(H, {2, 4}), w).dtype(), F);
  }
  EXPECT_EQ(linear(x, w).dtype(), H);
  Traced strict(std::nullopt);
  Tensor y = strict(F, {2, 4});
  const Precision nothing(y, F);
  EXPECT_NE(refused([&] { y + strict(H, {2, 4}); }).find("dtypes differ"), std::string::npos)
      << "f32 is no policy where there is none";
}

TEST(Policy, RefusesWhatCannotBe) {
  Traced t(H);
  Tensor x = t(F, {2});
  const auto here = [](int line) { return str("ops_policy_test.cpp:", line); };
  const std::string dtype = refused([&] { Precision wrong(x, I); });
  EXPECT_NE(dtype.find(here(__LINE__ - 1)), std::string::npos) << dtype;
  EXPECT_NE(dtype.find("a policy of i32; choose f32, bf16 or f16"), std::string::npos) << dtype;
  const std::string empty = refused([&] { Precision wrong(Tensor{}, F); });
  EXPECT_NE(empty.find("the tensor is empty; pass one of the step"), std::string::npos) << empty;
  EXPECT_NE(
      refused([&] { matmul(t(D, {2, 2}), t(F, {2, 2})); }).find("dtypes differ: lhs f64[2,2], rhs f32[2,2]"),
      std::string::npos)
      << "f64 beside f32 is as strict as ever";
}

}  // namespace
}  // namespace lockstep
