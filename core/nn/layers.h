// Layers: each is a struct with the parameters it records and a call that writes nodes. FQNs are those of
// PyTorch: weight, bias. Each computes in the state's compute dtype (State::compute_dtype), which is also the
// dtype of its input and output activations. Shapes: "..." is any number of leading dims. A call's `at` is
// the user's line; errors name it with the layer's FQN.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/functions/functions.h"
#include "core/nn/scope.h"

namespace lockstep {

// While an object lives, nodes of the graph that `x` belongs to carry this layer's FQN and the line that
// called it.
class InLayer {
 public:
  InLayer(const Tensor& x, const std::string& fqn, Here at);
  ~InLayer();
  InLayer(const InLayer&) = delete;

 private:
  std::shared_ptr<Builder> builder_;
  std::string before_;
  SourceLine line_;
  AtLine at_line_;
};

// While an object lives, this thread traces for evaluation: Dropout does nothing.
class Evaluation {
 public:
  explicit Evaluation(bool on = true);
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  static bool active();

 private:
  bool before_;
};

// x W^T + bias in the state's compute dtype, plus the term of the weight's adapter: x [..., in] -> [...,
// out]. The weight [out, in] is one that Scope::projection recorded; the bias is [out] or empty.
Tensor projected(Tensor x, const Parameter& weight, const Parameter& bias, Here at = Here::current());

inline constexpr double kInitStd = 0.02;

// Initial values of a Linear; a single Init is that of the weight, with biases of 0.
struct LinearInit {
  Init weight = init::normal(kInitStd);
  Init bias = init::zeros();
  LinearInit(Init of_weight, Init of_bias = init::zeros()) : weight(of_weight), bias(of_bias) {}
};
// PyTorch's default: weight and bias uniform in +-1 / sqrt(in).
LinearInit torch_linear(int64_t in);

// weight [out, in], bias [out].
class Linear {
 public:
  Linear(Scope at, int64_t in, int64_t out, bool bias = true,
         const LinearInit& start = init::normal(kInitStd), Here line = Here::current());
  Tensor operator()(Tensor x, Here at = Here::current()) const;  // [..., in] -> [..., out]
  Parameter weight, bias;                                        // bias is empty without one

 private:
  std::string path_;
};

struct EmbeddingOptions {
  Init weight = init::normal(kInitStd);
  bool sparse = false;  // gradients and updates only of the rows that a step reads: Scope::sparse
};
// weight [rows, width].
class Embedding {
 public:
  Embedding(Scope at, int64_t rows, int64_t width, const EmbeddingOptions& options,
            Here line = Here::current());
  Embedding(Scope at, int64_t rows, int64_t width, Init weight_init = init::normal(kInitStd),
            Here line = Here::current());
  Tensor operator()(Tensor ids, Here at = Here::current()) const;  // i32 [...] -> [..., width]
  Tensor logits(Tensor x, Here at = Here::current()) const;  // the tied head: [..., width] -> [..., rows]
  Parameter weight;

 private:
  std::string path_;
};

// Normalises the last dim; weight [width] (ones), bias [width] (zeros).
class LayerNorm {
 public:
  LayerNorm(Scope at, int64_t width, double eps = 1e-5, Here line = Here::current());
  Tensor operator()(Tensor x, Here at = Here::current()) const;  // [..., width] -> same
  Parameter weight, bias;

 private:
  std::string path_;
  double eps_;
};

// x / sqrt(mean(x^2) + eps) * weight over the last dim; weight [width] (ones). Zhang and Sennrich, 2019.
class RmsNorm {
 public:
  RmsNorm(Scope at, int64_t width, double eps = 1e-5, Here line = Here::current());
  Tensor operator()(Tensor x, Here at = Here::current()) const;  // [..., width] -> same
  Parameter weight;

 private:
  std::string path_;
  double eps_;
};

// Zeroes elements with probability p while training and scales the rest by 1 / (1 - p). The path keys the
// random stream: equal masks on any mesh. UserError unless 0 <= p < 1.
class Dropout {
 public:
  Dropout(Scope at, double p, Here line = Here::current());
  Tensor operator()(Tensor x, Here at = Here::current()) const;  // x itself when p is 0 or under Evaluation

 private:
  std::string path_;
  double p_;
};

// `depth` blocks, one after another: at.0, at.1, ... Each is Block(Scope, args...).
template <class Block>
class Stack {
 public:
  template <class... Args>
  Stack(const Scope& at, int64_t depth, const Args&... args) {
    blocks_.reserve(depth);
    for (int64_t i = 0; i < depth; ++i) blocks_.emplace_back(at / i, args...);
  }
  Tensor operator()(Tensor x) const {
    for (const Block& block : blocks_) x = block(x);
    return x;
  }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  std::vector<Block> blocks_;
};

}  // namespace lockstep
