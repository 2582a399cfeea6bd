// Graphs of layers, small and awkward in size, for tests of fusion.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "core/functions/functions.h"
#include "core/ops/op.h"

namespace lockstep {

struct FuseCase {
  std::string name;
  Graph graph;       // composites whole
  double scale = 1;  // of the tolerance against the reference
};

// Inputs by name, outputs by position.
class CaseBuilder {
 public:
  Tensor in(DType dtype, Shape shape) {
    return {builder_,
            builder_->graph.add_input(InputKind::value, str("x", count_++), dtype, std::move(shape))};
  }
  Tensor in(Shape shape) { return in(DType::f32, std::move(shape)); }
  void out(Tensor tensor) {
    builder_->graph.add_output(OutputKind::value, str("y", outputs_++), tensor.id());
  }
  Graph take() { return builder_->graph; }
  const std::shared_ptr<Builder>& builder() const { return builder_; }

 private:
  static std::shared_ptr<Builder> empty() {
    auto builder = std::make_shared<Builder>();
    builder->graph.mesh = Mesh{{}, {}};
    return builder;
  }
  std::shared_ptr<Builder> builder_ = empty();
  int count_ = 0, outputs_ = 0;
};

inline std::vector<FuseCase> fuse_cases() {
  std::vector<FuseCase> cases;
  auto add = [&](const std::string& name, const std::function<void(CaseBuilder&)>& make, double scale = 1) {
    CaseBuilder builder;
    make(builder);
    cases.push_back({name, builder.take(), scale});
  };
  using B = CaseBuilder;
  add("gelu_bias_residual", [](B& b) {
    Tensor x = b.in({3, 7, 33}), bias = b.in({33}), r = b.in({3, 7, 33});
    b.out(apply1("gelu", {x + bias}, {{"form", std::string("tanh")}}) + r);
  });
  // What makes a tensor rounds it to float8, too, and finds the largest of its rows, or of its columns.
  for (DType to : {DType::f8_e4m3, DType::f8_e5m2})
    for (bool columns : {false, true})
      add(str("float8 ", name(to), columns ? " by columns" : " by rows"), [&](B& b) {
        Tensor x = b.in(DType::bf16, {48, 80}) * 0.5, wide = convert(x, DType::f32);
        b.out(convert(wide * broadcast_to(b.in({}), {48, 80}), to));
        b.out(amax(x, columns));
        if (columns) b.out(sum(wide, {0}));
      });
  for (Shape shape : {Shape{5, 4, 48}, Shape{3, 37}, Shape{70, 16}}) {
    add(
        str("layer_norm", shape),
        [&](B& b) {
          Tensor x = b.in(shape), w = b.in({shape.back()}), bias = b.in({shape.back()});
          for (Tensor& y : apply("layer_norm", {x, w, bias}, {{"eps", 1e-5}})) b.out(y);
        },
        4);
    add(
        str("layer_norm_grad", shape),
        [&](B& b) {
          Shape rows(shape.begin(), shape.end() - 1);
          Tensor dy = b.in(shape), x = b.in(shape), w = b.in({shape.back()}), mean = b.in(rows),
                 rstd = b.in(rows), more = b.in(shape);
          auto grads = apply("layer_norm_grad", {dy, x, w, mean, rstd});
          b.out(grads[0] + more);
          b.out(grads[1]);
          b.out(grads[2]);
        },
        30);
  }
  add(
      "rms_norm_bf16",
      [](B& b) {
        Tensor x = b.in(DType::bf16, {6, 40}), w = b.in(DType::f32, {40});
        b.out(apply("rms_norm", {x, w}, {{"eps", 1e-5}})[0]);
      },
      2);
  add(
      "rms_norm_grad",
      [](B& b) {
        Tensor dy = b.in({40, 24}), x = b.in({40, 24}), w = b.in({24}), rstd = b.in({40});
        for (Tensor& g : apply("rms_norm_grad", {dy, x, w, rstd})) b.out(g);
      },
      30);
  add("softmax_rows", [](B& b) { b.out(softmax(b.in({4, 3, 77}))); }, 2);
  add(
      "cross_entropy",
      [](B& b) {
        Tensor logits = b.in({6, 5, 19}), targets = b.in(DType::i32, {6, 5}), dsum = b.in({});
        auto loss = apply("cross_entropy", {logits, targets}, {{"ignore_index", int64_t{2}}});
        b.out(loss[0]);
        b.out(loss[1]);
        b.out(apply1("cross_entropy_grad", {dsum, logits, targets, loss[2]}, {{"ignore_index", int64_t{2}}}));
      },
      30);
  add(
      "gelu_grad_and_bias_grad",
      [](B& b) {
        Tensor dy = b.in({37, 48}), x = b.in({37, 48});
        Tensor dx = apply1("gelu_grad", {dy, x}, {{"form", std::string("tanh")}});
        b.out(dx);
        b.out(sum(dx, {0}));
      },
      20);
  add("heads_apart_and_back", [](B& b) {  // views inside: q, k, v of one buffer, heads to the front
    Tensor qkv = b.in({2, 5, 3 * 32});
    auto parts = split(qkv, 2, {32, 32, 32});
    for (auto& part : parts) b.out(permute(reshape(part, {2, 5, 2, 16}), {0, 2, 1, 3}) * 0.5);
  });
  add(
      "heads_joined",
      [](B& b) {
        Tensor a = b.in({2, 3, 5, 8}), c = b.in({2, 3, 5, 8});
        Tensor whole = concat({permute(a, {0, 2, 1, 3}), permute(c, {0, 2, 1, 3})}, 3);
        b.out(reshape(whole, {10, 48}));
        b.out(sum(reshape(whole, {10, 48}), {0}));
      },
      2);
  add(
      "rope",
      [](B& b) { b.out(apply1("rope", {b.in({2, 6, 2, 32})}, {{"theta", 10000.0}, {"inverse", false}})); },
      4);
  add("pads_and_slices", [](B& b) {
    Tensor x = b.in({4, 20});
    b.out(pad(slice(x, 1, 3, 17), {1, 2}, {0, 5}, 0.25) + pad(x, {1, 0}, {0, 1}, 0.0));
    b.out(x * 2.0);
  });
  add(
      "embedding_and_position",
      [](B& b) {
        Tensor table = b.in({9, 24}), positions = b.in({5, 24}), ids = b.in(DType::i32, {3, 5});
        Tensor x = embedding(table, ids) + broadcast_to(positions, {3, 5, 24});
        b.out(x);
        b.out(sum(x * x, {2}));
      },
      4);
  add("dropout", [](B& b) {
    Tensor x = b.in({3, 50}), seed = b.in(DType::i64, {}), step = b.in(DType::i64, {}),
           sample = b.in(DType::i64, {});
    b.out(apply1("dropout", {x, seed, step, sample}, {{"p", 0.25}, {"stream", int64_t{77}}}) + x);
  });
  add(
      "long_sum",
      [](B& b) {
        Tensor x = b.in({3, 30011});
        b.out(sum(x * x, {0, 1}));
        b.out(max(x, {0, 1}));
      },
      40);
  add(
      "wide_columns",
      [](B& b) {
        Tensor x = b.in({70, 3001}), y = b.in({70, 3001});
        b.out(sum(x * y, {0}));
        b.out(sum(x, {0}) * 0.5);
        b.out(x + y);
      },
      10);
  add("middle_sum", [](B& b) { b.out(sum(b.in({3, 11, 20}), {1}) + b.in({3, 20})); }, 3);
  add(
      "bf16_chain",
      [](B& b) {
        Tensor x = b.in(DType::bf16, {5, 32}), y = b.in(DType::bf16, {5, 32});
        Tensor z = (x + y) * y;
        b.out(exp(z));
        b.out(convert(sum(convert(z, DType::f32), {1}), DType::bf16));
      },
      2);
  add("argmax_of_sum", [](B& b) {
    Tensor x = b.in({6, 45}), y = b.in({6, 45});
    b.out(apply1("argmax", {x + y}, {{"dim", int64_t{1}}}));
  });
  add("empty_and_single", [](B& b) {
    Tensor x = b.in({0, 5}), y = b.in({1, 1});
    b.out(x + 1.0);
    b.out(sum(x, {0}));
    b.out(sum(y * y, {0, 1}));
  });
  return cases;
}

}  // namespace lockstep
