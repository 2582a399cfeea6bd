// dot and linear on the GPU against sums in double; every epilogue; equal bits on repetition.
#include <cmath>
#include <iostream>

#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/matmul/contraction_plan.h"
#include "core/base/error.h"
#include "tests/gpu/library_case.h"

namespace lockstep::compiler::cuda {
namespace {

using List = std::vector<int64_t>;
size_t u(int64_t i) { return static_cast<size_t>(i); }

double output_step(DType dtype) {  // half a unit in the last place, relative
  return dtype == DType::bf16  ? 0x1p-9
         : dtype == DType::f16 ? 0x1p-12
         : dtype == DType::f32 ? 0x1p-24
                               : 0x1p-53;
}
// Of the sum of |a b|: fp32 adds in blocks; tensor cores align products to the largest before they add.
double sum_step(DType in, bool tf32) {
  if (in == DType::f64) return 0x1p-49;
  if (in == DType::f32) return tf32 ? 0x1p-10 : 0x1p-20;
  return 0x1p-19;
}

class contraction : public LibraryCase {
 protected:
  static Node dot_node(const List& lb, const List& rb, const List& lc, const List& rc) {
    Node node;
    node.op = "dot";
    node.attrs = {{"lhs_batch", lb}, {"rhs_batch", rb}, {"lhs_contract", lc}, {"rhs_contract", rc}};
    return node;
  }
  static int64_t place(const OperandRole& role, int64_t flat) {
    int64_t at = 0;
    for (size_t i = role.sizes.size(); i-- > 0;)
      at += flat % role.sizes[i] * role.strides[i], flat /= role.sizes[i];
    return at;
  }
  static int64_t span(const Operand& operand) {
    int64_t out = 1;
    for (size_t i = 0; i < operand.shape.size(); ++i)
      out += std::max<int64_t>(0, operand.shape[i] - 1) * operand.strides[i];
    return numel(operand.shape) ? out : 0;
  }

  // The roles of the plan are proved exact without a GPU (unit tests): here they address the reference.
  void expect_right(const Node& node, const Operand& a, const Operand& b, bool bias, DType out_type,
                    const Shape& out_shape, bool tf32 = false) {
    Operand out = dense_operand(out_type, out_shape);
    std::vector<Operand> in{a, b};
    Array pa = random(a.dtype, span(a)), pb = random(b.dtype, span(b)), pbias;
    std::vector<const Array*> inputs{&pa, &pb};
    ContractionPlan plan;
    if (bias) {
      in.push_back(dense_operand(a.dtype, {b.shape[0]}));
      pbias = random(a.dtype, b.shape[0]);
      inputs.push_back(&pbias);
    }
    plan = plan_contraction(node, in, {out}, tf32);
    TargetOptions options;
    options.tf32 = tf32;
    auto call = make_contraction(*device_, node, in, {out}, options);
    SCOPED_TRACE(call->algorithm());
    const bool split = call->algorithm().starts_with("bf16x6");
    EXPECT_LE(call->workspace(1), split ? size_t{1} << 32 : kGemmWorkspace);
    EXPECT_EQ(call->flops(),
              2.0 * static_cast<double>(plan.batch * plan.m) * static_cast<double>(plan.n * plan.k));
    Array got = run(*call, inputs, out_type, numel(out_shape));
    int64_t total = plan.batch * plan.m * plan.n, wrong = 0;
    std::vector<double> all = values(got);
    bool every = static_cast<double>(total) * static_cast<double>(std::max<int64_t>(1, plan.k)) < 2e7;
    std::vector<double> va = values(pa), vb = values(pb);
    for (int64_t i = 0; i < total && wrong < 3; ++i) {
      if (!std::isfinite(all[u(i)])) {
        ADD_FAILURE() << "element " << i << " is " << all[u(i)];
        ++wrong;
      }
      if (!every && engine_() % static_cast<unsigned>(total / 4096 + 1)) continue;
      int64_t n = i % plan.n, m = i / plan.n % plan.m, batch = i / (plan.n * plan.m);
      int64_t at = place(plan.a.batch, batch) + place(plan.a.free, m),
              bt = place(plan.b.batch, batch) + place(plan.b.free, n);
      double sum = 0, size = 0;
      for (int64_t k = 0; k < plan.k; ++k) {
        double product = va[u(at + place(plan.a.contract, k))] * vb[u(bt + place(plan.b.contract, k))];
        sum += product, size += std::fabs(product);
      }
      if (bias) sum += pbias.at(n), size += std::fabs(pbias.at(n));
      double allowed = sum_step(a.dtype, tf32) * size + 2 * output_step(out_type) * std::fabs(sum) + 1e-300;
      if (!(std::fabs(all[u(i)] - sum) <= allowed)) {
        ADD_FAILURE() << "element " << i << " is " << all[u(i)] << ", right is " << sum << " +- " << allowed;
        ++wrong;
      }
    }
  }
  static std::vector<double> values(const Array& array) {
    std::vector<double> out(u(array.size()));
    for (int64_t i = 0; i < array.size(); ++i) out[u(i)] = array.at(i);
    return out;
  }
  void expect_linear(DType dtype, const Shape& x, int64_t out, bool bias, bool tf32 = false) {
    Node node;
    node.op = "linear";
    Shape y = x;
    y.back() = out;
    expect_right(node, dense_operand(dtype, x), dense_operand(dtype, {out, x.back()}), bias, dtype, y, tf32);
  }
};

TEST_F(contraction, linear_forward_in_every_type) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (bool bias : {false, true}) {
      expect_linear(dtype, {1}, 1, bias);
      expect_linear(dtype, {3, 5, 7}, 9, bias);
      expect_linear(dtype, {2, 17, 33}, 65, bias);
      expect_linear(dtype, {4, 64, 128}, 256, bias);
      expect_linear(dtype, {0, 8}, 8, bias);
      expect_linear(dtype, {5, 0}, 8, bias);
    }
  expect_linear(DType::bf16, {1, 1, 1024}, 1001, true);  // one row
  expect_linear(DType::bf16, {1024, 768}, 1, true);      // one column
}
TEST_F(contraction, linear_large) {
  expect_linear(DType::bf16, {4, 512, 768}, 2304, true);
  expect_linear(DType::bf16, {512, 768}, 50257, false);  // an odd vocabulary
  expect_linear(DType::f32, {1000, 1111}, 999, true);
}
// Sums of fp32 may be split and added in place, in one order.
TEST_F(contraction, long_sums_of_fp32) {
  expect_right(dot_node({}, {}, {0}, {0}), dense_operand(DType::f32, {32768, 2304}),
               dense_operand(DType::f32, {32768, 768}), false, DType::f32, {2304, 768});
}
TEST_F(contraction, tf32_only_on_request) {
  expect_linear(DType::f32, {256, 512}, 128, true, true);
  expect_linear(DType::f32, {256, 512}, 128, true, false);  // the bound is far below TF32's rounding
}

TEST_F(contraction, tf32_of_few_tiles_and_of_rows_as_they_come) {
  const Operand dy = dense_operand(DType::f32, {4096, 384}), x = dense_operand(DType::f32, {4096, 384});
  expect_right(dot_node({}, {}, {0}, {0}), dy, x, false, DType::f32, {384, 384}, true);
  for (int64_t width : {650, 652, 656}) {
    expect_linear(DType::f32, {128, width}, 2600, true, true);
    expect_linear(DType::f32, {128, 256}, width, true, true);
  }
}

// As they come, and as pad_products would have them: forward, dx and dw in bf16 and f16.
TEST_F(contraction, rows_of_no_multiple_of_8_and_padded) {
  for (DType dtype : {DType::bf16, DType::f16})
    for (auto [rows, in, out] : {std::array<int64_t, 3>{128, 650, 2600},
                                 {128, 656, 2600},
                                 {130, 256, 1003},
                                 {130, 256, 1008},
                                 {64, 64, 5003},
                                 {64, 64, 5008}}) {
      const Operand dy = dense_operand(dtype, {rows, out}), w = dense_operand(dtype, {out, in}),
                    x = dense_operand(dtype, {rows, in});
      expect_linear(dtype, {rows, in}, out, true);
      expect_right(dot_node({}, {}, {1}, {0}), dy, w, false, dtype, x.shape);
      for (DType sums : {dtype, DType::f32})
        expect_right(dot_node({}, {}, {0}, {0}), dy, x, false, sums, w.shape);
    }
}

TEST_F(contraction, gradients_of_linear) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (auto [rows, in, out] :
         {std::array<int64_t, 3>{1, 1, 1}, {13, 7, 5}, {130, 64, 48}, {512, 768, 256}}) {
      Operand dy = dense_operand(dtype, {2, rows, out}), w = dense_operand(dtype, {out, in}),
              x = dense_operand(dtype, {2, rows, in});
      expect_right(dot_node({}, {}, {2}, {0}), dy, w, false, dtype, x.shape);
      expect_right(dot_node({}, {}, {0, 1}, {0, 1}), dy, x, false, dtype, w.shape);
      if (dtype == DType::bf16)
        expect_right(dot_node({}, {}, {0, 1}, {0, 1}), dy, x, false, DType::f32, w.shape);  // sums kept
    }
  Operand dy = dense_operand(DType::bf16, {16384, 96}),
          x = dense_operand(DType::bf16, {16384, 64});  // long sums: split-k may be chosen
  expect_right(dot_node({}, {}, {0}, {0}), dy, x, false, DType::bf16, {96, 64});
}

TEST_F(contraction, samples_of_the_op_table) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    auto both = [&](Shape a, Shape b, const Node& node, Shape out) {
      expect_right(node, dense_operand(dtype, a), dense_operand(dtype, b), false, dtype, out);
    };
    both({3, 5}, {5, 7}, dot_node({}, {}, {1}, {0}), {3, 7});
    both({2, 3, 1, 5}, {2, 7, 3, 5}, dot_node({0, 1}, {0, 2}, {3}, {3}), {2, 3, 1, 7});
    both({4, 3, 2}, {2, 5, 4}, dot_node({}, {}, {0, 2}, {2, 0}), {3, 5});
    both({3}, {5}, dot_node({}, {}, {}, {}), {3, 5});
    both({4, 0}, {0, 3}, dot_node({}, {}, {1}, {0}), {4, 3});
    both({37}, {37}, dot_node({}, {}, {0}, {0}), {});
  }
}

TEST_F(contraction, batches_and_strides) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    // Scores and their product with values: [B,T,H,D], batch (B,H).
    expect_right(dot_node({0, 2}, {0, 2}, {3}, {3}), dense_operand(dtype, {3, 33, 4, 16}),
                 dense_operand(dtype, {3, 29, 4, 16}), false, dtype, {3, 4, 33, 29});
    expect_right(dot_node({0, 1}, {0, 2}, {3}, {1}), dense_operand(dtype, {3, 4, 33, 29}),
                 dense_operand(dtype, {3, 29, 4, 16}), false, dtype, {3, 4, 33, 16});
    expect_right(dot_node({0}, {0}, {2}, {1}), dense_operand(dtype, {9, 17, 31}),
                 dense_operand(dtype, {9, 31, 8}), false, dtype, {9, 17, 8});
    // A part of a wider matrix, a transposed one, one matrix for all batches, and one with gaps everywhere.
    expect_right(dot_node({}, {}, {1}, {0}), Operand{dtype, {40, 64}, {192, 1}},
                 dense_operand(dtype, {64, 24}), false, dtype, {40, 24});
    expect_right(dot_node({}, {}, {1}, {0}), Operand{dtype, {40, 64}, {1, 40}},
                 Operand{dtype, {64, 24}, {1, 72}}, false, dtype, {40, 24});
    expect_right(dot_node({0}, {0}, {2}, {1}), Operand{dtype, {5, 8, 16}, {0, 16, 1}},
                 dense_operand(dtype, {5, 16, 8}), false, dtype, {5, 8, 8});
    expect_right(dot_node({}, {}, {1}, {0}), Operand{dtype, {21, 19}, {60, 3}},
                 dense_operand(dtype, {19, 35}), false, dtype, {21, 35});
  }
}

TEST_F(contraction, integers_wrap) {
  Operand a = dense_operand(DType::i32, {17, 40}), b = dense_operand(DType::i32, {40, 9});
  Array pa = random(DType::i32, 17 * 40), pb = random(DType::i32, 40 * 9);
  auto call = make_contraction(*device_, dot_node({}, {}, {1}, {0}), {a, b},
                               {dense_operand(DType::i32, {17, 9})}, {});
  Array got = run(*call, {&pa, &pb}, DType::i32, 17 * 9);
  for (int64_t m = 0; m < 17; ++m)
    for (int64_t n = 0; n < 9; ++n) {
      uint32_t sum = 0;
      for (int64_t k = 0; k < 40; ++k)
        sum += pa.host.as<uint32_t>()[m * 40 + k] * pb.host.as<uint32_t>()[k * 9 + n];
      ASSERT_EQ(got.host.as<uint32_t>()[m * 9 + n], sum) << m << "," << n;
    }
}

TEST_F(contraction, a_pointer_off_its_alignment_is_refused) {
  Operand x = dense_operand(DType::bf16, {64, 64});
  Array a = random(DType::bf16, 64 * 64 + 8), b = random(DType::bf16, 64 * 64),
        d = poisoned(DType::bf16, 64 * 64);
  auto call = make_contraction(*device_, dot_node({}, {}, {1}, {0}), {x, x}, {x}, {});
  Array workspace = poisoned(DType::u8, static_cast<int64_t>(call->workspace(1)));
  void* args[] = {a.device.data() + 2, b.device.data(), d.device.data()};
  try {
    call->enqueue(args, workspace.device.data(), *stream_, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("multiples of 16 bytes"), std::string::npos) << error.what();
  }
}

TEST_F(contraction, the_choice_is_a_function_of_the_options) {
  Operand x = dense_operand(DType::bf16, {1024, 768}), w = dense_operand(DType::bf16, {3072, 768});
  Node node;
  node.op = "linear";
  auto make = [&] {
    return make_contraction(*device_, node, {x, w}, {dense_operand(DType::bf16, {1024, 3072})}, {});
  };
  EXPECT_EQ(make()->algorithm(), make()->algorithm());
  EXPECT_NE(make()->algorithm().find("algo="), std::string::npos) << make()->algorithm();
}

// The epilogues, through Gemm.
class epilogue : public contraction {
 protected:
  static double gelu_tanh(double x) {
    return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  }
  static double gelu_erf(double x) { return 0.5 * x * (1 + std::erf(x * 0.7071067811865476)); }
  static double gelu_tanh_slope(double x) {
    double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
  }
  static double gelu_erf_slope(double x) {
    return 0.5 * (1 + std::erf(x * 0.7071067811865476)) + x * std::exp(-0.5 * x * x) * 0.3989422804014327;
  }
  struct Result {
    std::vector<double> d, aux, sums, product, bias, aux_in, col_sums_b, row_sums_a;
  };
  // False when cuBLASLt has none for this type.
  bool evaluate(DType dtype, Epilogue which, int64_t m, int64_t n, int64_t k, bool ta, Result& out) {
    GemmOptions o{.m = m,
                  .n = n,
                  .k = k,
                  .ta = ta,
                  .tb = !ta,
                  .lda = ta ? m : k,
                  .ldb = ta ? n : k,
                  .ldd = n,
                  .in = dtype,
                  .out = dtype,
                  .epilogue = which,
                  .ld_aux = n};
    if (which == Epilogue::sums_a || which == Epilogue::sums_b || which == Epilogue::bias) o.ld_aux = 0;
    auto gemm = make_gemm(*device_, o);
    if (!gemm) return false;
    SCOPED_TRACE(gemm->algorithm());
    Array a = random(dtype, m * k, 3 / std::sqrt(static_cast<double>(k))), b = random(dtype, n * k, 2),
          bias = random(dtype, n, 0.5);
    Array aux_in = random(dtype, m * n, 3);
    std::vector<Array> ds, auxes, sums;
    for (int pass = 0; pass < 3; ++pass) {
      ds.push_back(poisoned(dtype, m * n)),
          auxes.push_back(which == Epilogue::gelu_bias_aux ? poisoned(dtype, m * n) : aux_in);
      sums.push_back(poisoned(dtype, which == Epilogue::sums_a ? m : n));
      Array workspace = poisoned(DType::u8, static_cast<int64_t>(gemm->workspace()));
      gemm->enqueue({a.device.data(), b.device.data(), ds.back().device.data(), bias.device.data(),
                     sums.back().device.data(), auxes.back().device.data()},
                    workspace.device.data(), *stream_);
      stream_->synchronize();
      download(ds.back()), download(sums.back()), download(auxes.back());
    }
    for (int pass = 1; pass < 3; ++pass) {
      EXPECT_TRUE(same_bits(ds[0], ds[u(pass)])) << "D differs between runs";
      EXPECT_TRUE(same_bits(auxes[0], auxes[u(pass)])) << "aux differs between runs";
      EXPECT_TRUE(same_bits(sums[0], sums[u(pass)])) << "sums differ between runs";
    }
    out.d = values(ds[0]), out.aux = values(auxes[0]), out.sums = values(sums[0]), out.bias = values(bias),
    out.aux_in = values(aux_in);
    auto va = values(a), vb = values(b);
    out.product.assign(u(m * n), 0), out.row_sums_a.assign(u(m), 0), out.col_sums_b.assign(u(n), 0);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l)
          out.product[u(i * n + j)] += va[u(ta ? l * m + i : i * k + l)] * vb[u(ta ? l * n + j : j * k + l)];
    for (int64_t l = 0; l < k; ++l) {
      for (int64_t i = 0; i < m; ++i) out.row_sums_a[u(i)] += va[u(ta ? l * m + i : i * k + l)];
      for (int64_t j = 0; j < n; ++j) out.col_sums_b[u(j)] += vb[u(ta ? l * n + j : j * k + l)];
    }
    return true;
  }
  static double slack(DType dtype) {
    return dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-9 : 2e-3;
  }
  void expect_near(const std::vector<double>& got, const std::vector<double>& want, double relative,
                   double absolute, const char* what) {
    ASSERT_EQ(got.size(), want.size());
    int wrong = 0;
    for (size_t i = 0; i < got.size() && wrong < 3; ++i)
      if (!(std::fabs(got[i] - want[i]) <= absolute + relative * std::fabs(want[i]))) {
        ADD_FAILURE() << what << " " << i << " is " << got[i] << ", right is " << want[i];
        ++wrong;
      }
  }
  // How much of (erf form - tanh form) is in the difference to the tanh form: 0 when tanh, 1 when erf.
  static double share_of_erf(const std::vector<double>& got, const std::vector<double>& tanh_form,
                             const std::vector<double>& erf_form) {
    double dot = 0, norm = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      double towards = erf_form[i] - tanh_form[i];
      dot += (got[i] - tanh_form[i]) * towards, norm += towards * towards;
    }
    return dot / norm;
  }
  void must(bool there, DType dtype, const char* what) {
    EXPECT_TRUE(there || dtype != DType::bf16) << "cuBLASLt has no " << what << " for bf16";
    if (!there) std::cout << "cuBLASLt has no " << what << " for " << name(dtype) << "\n";
  }
};
constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

TEST_F(epilogue, gelu_with_bias_and_aux_is_the_tanh_form) {
  for (DType dtype : kTypes) {
    Result r;
    bool there = evaluate(dtype, Epilogue::gelu_bias_aux, 192, 256, 64, false, r);
    must(there, dtype, "gelu_bias_aux");
    if (!there) continue;
    std::vector<double> x = r.product, y, other;
    for (size_t i = 0; i < x.size(); ++i) x[i] += r.bias[i % 256];
    for (double v : x) y.push_back(gelu_tanh(v)), other.push_back(gelu_erf(v));
    expect_near(r.aux, x, slack(dtype), 1e-3, "aux");
    expect_near(r.d, y, slack(dtype), 2 * slack(dtype), "gelu");
    double share = share_of_erf(r.d, y, other);
    std::cout << "gelu of " << name(dtype) << ": share of the erf form " << share << "\n";
    EXPECT_LT(std::fabs(share), 0.5);
  }
}
TEST_F(epilogue, gelu_gradient_with_and_without_sums) {
  for (DType dtype : kTypes)
    for (Epilogue which : {Epilogue::gelu_grad, Epilogue::gelu_grad_sums}) {
      Result r;
      bool there = evaluate(dtype, which, 320, 256, 64, false, r);
      must(there, dtype, name(which));
      if (!there) continue;
      std::vector<double> want, other, sums(256, 0), sizes(256, 0);
      for (size_t i = 0; i < r.product.size(); ++i) {
        want.push_back(r.product[i] * gelu_tanh_slope(r.aux_in[i])),
            other.push_back(r.product[i] * gelu_erf_slope(r.aux_in[i]));
        sums[i % 256] += want.back(), sizes[i % 256] += std::fabs(want.back());
      }
      expect_near(r.d, want, slack(dtype), 4 * slack(dtype), "gradient");
      double share = share_of_erf(r.d, want, other);
      std::cout << "gelu gradient of " << name(dtype) << ": share of the erf form " << share << "\n";
      EXPECT_LT(std::fabs(share), 0.5);
      if (which != Epilogue::gelu_grad_sums) continue;
      for (size_t j = 0; j < 256; ++j)
        EXPECT_NEAR(r.sums[j], sums[j], slack(dtype) * (std::fabs(sums[j]) + 0.05 * sizes[j]) + 1e-3) << j;
    }
}
TEST_F(epilogue, sums_of_an_operand) {
  for (DType dtype : kTypes)
    for (Epilogue which : {Epilogue::sums_a, Epilogue::sums_b}) {
      Result r;
      bool there = evaluate(dtype, which, 128, 192, 1024, true, r);  // as dw = dy^T x
      must(there, which == Epilogue::sums_a ? dtype : DType::f16,
           name(which));  // sums_b is for no gradient of linear
      if (!there) continue;
      expect_near(r.d, r.product, slack(dtype), 4 * slack(dtype), "product");
      expect_near(r.sums, which == Epilogue::sums_a ? r.row_sums_a : r.col_sums_b, slack(dtype),
                  4 * slack(dtype), "sums");
    }
}
TEST_F(epilogue, candidates_and_tuning_agree_with_the_first_choice) {
  GemmOptions o{.m = 512,
                .n = 768,
                .k = 256,
                .tb = true,
                .lda = 256,
                .ldb = 256,
                .ldd = 768,
                .in = DType::bf16,
                .out = DType::bf16};
  auto all = gemm_candidates(*device_, o, 8);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0]->algorithm(), make_gemm(*device_, o)->algorithm());
  for (const auto& gemm : all) {
    EXPECT_LE(gemm->workspace(), kGemmWorkspace);
    std::string what = gemm->algorithm();
    EXPECT_TRUE(what.find(" reduction=0 ") != std::string::npos ||
                what.find(" reduction=2 ") != std::string::npos)
        << what;
  }
  ASSERT_NE(tune_gemm(*device_, o, 2), nullptr);
}

}  // namespace
}  // namespace lockstep::compiler::cuda
