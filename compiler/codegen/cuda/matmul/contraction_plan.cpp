// Merges the dims of a contraction into one matrix product, batched through strides.
#include "compiler/codegen/cuda/matmul/contraction_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr int64_t kMostLaunches = 256;  // of one contraction whose batch dims do not nest

// Appends a dim as the innermost.
void append(OperandRole& role, int64_t size, int64_t stride) {
  if (size == 1) return;
  if (!role.sizes.empty() && role.strides.back() == size * stride) {
    role.sizes.back() *= size, role.strides.back() = stride;
  } else {
    role.sizes.push_back(size), role.strides.push_back(stride);
  }
}

Side side_of(const Operand& operand, const std::vector<int64_t>& batch,
             const std::vector<int64_t>& contract) {
  Side side;
  auto has = [](const std::vector<int64_t>& dims, int64_t dim) {
    return std::find(dims.begin(), dims.end(), dim) != dims.end();
  };
  for (int64_t dim = 0; dim < static_cast<int64_t>(operand.shape.size()); ++dim)
    if (!has(batch, dim) && !has(contract, dim)) append(side.free, operand.shape[dim], operand.strides[dim]);
  return side;
}

// Merges dims of several operands that count together: they nest only if they nest in all operands.
template <size_t N>
struct Joint {
  std::vector<int64_t> sizes;
  std::vector<std::array<int64_t, N>> strides;
  void append(int64_t size, const std::array<int64_t, N>& stride) {
    if (size == 1) return;
    bool nests = !sizes.empty();
    for (size_t i = 0; nests && i < N; ++i) nests = strides.back()[i] == size * stride[i];
    if (nests) {
      sizes.back() *= size, strides.back() = stride;
    } else {
      sizes.push_back(size), strides.push_back(stride);
    }
  }
  OperandRole role(size_t which) const {
    OperandRole out{sizes, {}};
    for (const auto& stride : strides) out.strides.push_back(stride[which]);
    return out;
  }
};

// The layout of a matrix [rows, cols]: {stored transposed, elements between stored rows}, if one of its dims
// is dense.
struct Lie {
  bool transposed;
  int64_t ld;
};
std::optional<Lie> lie_of(const OperandRole& rows, const OperandRole& cols) {
  if (rows.sizes.size() > 1 || cols.sizes.size() > 1) return std::nullopt;
  int64_t nr = rows.count(), nc = cols.count();
  int64_t r = rows.sizes.empty() ? 0 : rows.strides[0], c = cols.sizes.empty() ? 0 : cols.strides[0];
  if ((nc == 1 || c == 1) && (nr == 1 || r >= nc)) return Lie{false, std::max(r, nc)};
  if ((nr == 1 || r == 1) && (nc == 1 || c >= nr)) return Lie{true, std::max(c, nr)};
  return std::nullopt;
}

std::string text(const OperandRole& role) { return str(role.sizes, " by strides ", role.strides); }

// The largest power of two, up to 16 bytes, that certainly divides the operand's pointer.
int alignment_of(const Operand& operand) {
  if (is_dense(operand)) return 16;
  auto bytes = static_cast<int64_t>(size_of(operand.dtype)), all = int64_t{16};
  for (size_t i = 0; i < operand.shape.size(); ++i)
    if (operand.shape[i] > 1 && operand.strides[i] > 1) all = std::gcd(all, operand.strides[i] * bytes);
  return static_cast<int>(std::max(all, bytes));
}

bool has_matrix_product(DType in, DType out) {
  if (in == DType::f32 || in == DType::f64) return out == in;
  return (in == DType::bf16 || in == DType::f16) && (out == in || out == DType::f32);
}
}  // namespace

int64_t OperandRole::count() const {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

namespace {
// The dims of both operands, pairwise.
struct Dims {
  std::vector<int64_t> batch_a, batch_b, contract_a, contract_b;
};
Dims dims_of(const Node& node, const Operand& a) {
  if (node.op == ops::linear) return {{}, {}, {static_cast<int64_t>(a.shape.size()) - 1}, {1}};
  return {node.attrs.list("lhs_batch"), node.attrs.list("rhs_batch"), node.attrs.list("lhs_contract"),
          node.attrs.list("rhs_contract")};
}

// The order of the summed dims decides only the order of the sum: those with the largest stride in A are
// outermost.
Joint<2> summed(const Dims& dims, const Operand& a, const Operand& b) {
  std::vector<size_t> order(dims.contract_a.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    return a.strides[dims.contract_a[x]] > a.strides[dims.contract_a[y]];
  });
  Joint<2> out;
  for (size_t i : order)
    out.append(a.shape[dims.contract_a[i]], {a.strides[dims.contract_a[i]], b.strides[dims.contract_b[i]]});
  return out;
}

Joint<3> batched(const Dims& dims, const Operand& a, const Operand& b, int64_t elements_of_output) {
  Joint<3> out;
  int64_t stride_d = elements_of_output;
  for (size_t i = 0; i < dims.batch_a.size(); ++i) {
    const int64_t size = a.shape[dims.batch_a[i]];
    stride_d = size ? stride_d / size : 0;
    out.append(size, {a.strides[dims.batch_a[i]], b.strides[dims.batch_b[i]], stride_d});
  }
  return out;
}

// Offsets of the launches: one per index of the batch dims except `through`, which uses strides.
std::vector<std::array<int64_t, 3>> launches_of(const Joint<3>& batch, size_t through) {
  std::vector<std::array<int64_t, 3>> out{{0, 0, 0}};
  for (size_t i = 0; i < batch.sizes.size(); ++i) {
    if (i == through) continue;
    std::vector<std::array<int64_t, 3>> all;
    for (const auto& at : out)
      for (int64_t j = 0; j < batch.sizes[i]; ++j)
        all.push_back({at[0] + j * batch.strides[i][0], at[1] + j * batch.strides[i][1],
                       at[2] + j * batch.strides[i][2]});
    out = std::move(all);
  }
  return out;
}

// Alignment of both operands, and of the offsets if there are several launches.
int alignment_of(const ContractionPlan& plan, const std::vector<Operand>& in) {
  int out = std::min(alignment_of(in[0]), alignment_of(in[1]));
  if (plan.at.size() > 1)
    for (const auto& at : plan.at)
      for (int which = 0; which < 3; ++which)
        out = static_cast<int>(std::gcd(
            int64_t{out}, at[which] * static_cast<int64_t>(size_of(which == 2 ? plan.out : plan.in))));
  return out;
}

// Plans the product as matrices, or sets `reason`.
void plan_matrices(ContractionPlan& plan, const Joint<3>& batch, const std::vector<Operand>& in, bool tf32) {
  auto lie_a = lie_of(plan.a.free, plan.a.contract), lie_b = lie_of(plan.b.contract, plan.b.free);
  if (!lie_a || !lie_b) {
    const Side& side = lie_a ? plan.b : plan.a;
    plan.reason =
        str(lie_a ? "right" : "left", " side: free ", text(side.free), ", summed ", text(side.contract));
    return;
  }
  // The longest batch dim uses strides; there is one launch per index of the others.
  size_t through = 0;
  for (size_t i = 1; i < batch.sizes.size(); ++i)
    if (batch.sizes[i] >= batch.sizes[through]) through = i;
  const int64_t longest = batch.sizes.empty() ? 1 : batch.sizes[through];
  if (plan.batch / longest > kMostLaunches) {
    plan.reason = str("batch of ", text(plan.a.batch));
    return;
  }
  plan.at = launches_of(batch, through);
  GemmOptions& gemm = plan.gemm;
  gemm.m = plan.m, gemm.n = plan.n, gemm.k = plan.k, gemm.batch = longest;
  gemm.ta = lie_a->transposed, gemm.tb = lie_b->transposed;
  gemm.lda = lie_a->ld, gemm.ldb = lie_b->ld, gemm.ldd = plan.n;
  if (!batch.sizes.empty())
    gemm.stride_a = batch.strides[through][0], gemm.stride_b = batch.strides[through][1],
    gemm.stride_d = batch.strides[through][2];
  gemm.in = plan.in, gemm.out = plan.out;
  gemm.tf32 = tf32 && plan.in == DType::f32;
  gemm.epilogue = plan.bias ? Epilogue::bias : Epilogue::none;
  gemm.alignment = alignment_of(plan, in);
  plan.matrix = true;
}
}  // namespace

ContractionPlan plan_contraction(const Node& node, const std::vector<Operand>& in,
                                 const std::vector<Operand>& out, bool tf32) {
  LS_CHECK(node.op == ops::dot || node.op == ops::linear, node.op);
  LS_CHECK(is_dense(out[0]), node.op, " writes a dense output");
  const Dims dims = dims_of(node, in[0]);
  ContractionPlan plan;
  plan.bias = node.op == ops::linear && in.size() > 2;
  plan.in = in[0].dtype, plan.out = out[0].dtype;
  plan.a = side_of(in[0], dims.batch_a, dims.contract_a);
  plan.b = side_of(in[1], dims.batch_b, dims.contract_b);
  const Joint<2> contract = summed(dims, in[0], in[1]);
  plan.a.contract = contract.role(0), plan.b.contract = contract.role(1);
  plan.m = plan.a.free.count(), plan.n = plan.b.free.count(), plan.k = plan.a.contract.count();
  plan.batch = 1;
  for (int64_t dim : dims.batch_a) plan.batch *= in[0].shape[dim];
  const Joint<3> batch = batched(dims, in[0], in[1], plan.batch * plan.m * plan.n);
  plan.a.batch = batch.role(0), plan.b.batch = batch.role(1);
  if (!has_matrix_product(plan.in, plan.out))
    plan.reason = str("no product of ", name(plan.in), " in ", name(plan.out));
  else if (plan.batch * plan.m * plan.n * plan.k == 0)
    plan.reason = "empty";
  else
    plan_matrices(plan, batch, in, tf32);
  return plan;
}

}  // namespace lockstep::compiler::cuda
