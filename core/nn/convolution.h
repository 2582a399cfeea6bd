// Layers of convolution, and of pooling, which has no state. FQNs and shapes of weights are those of PyTorch.
// A list of one number applies to all spatial dims.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/functions/spatial/convolution.h"
#include "core/functions/spatial/pooling.h"
#include "core/nn/layers.h"

namespace lockstep {

// weight [out, in / groups, kernel...], bias [out] (zeros). Without an init the weight is normal with the
// variance of PyTorch's default, 1 / (3 fan_in). UserError unless sizes are positive and groups divide
// channels.
class Convolution {
 public:
  Convolution(Scope at, size_t dims, int64_t in, int64_t out, std::vector<int64_t> kernel,
              ConvolutionOptions how = {}, bool bias = true, std::optional<Init> weight_init = {},
              Here line = Here::current());
  Tensor operator()(Tensor x, Here at = Here::current()) const;  // [N, in, s...] -> [N, out, o...]
  Parameter weight, bias;                                        // bias is empty without one

 private:
  std::string path_;
  ConvolutionOptions how_;
};
// weight [in, out / groups, kernel...], bias [out] (zeros); else as Convolution.
class TransposedConvolution {
 public:
  TransposedConvolution(Scope at, size_t dims, int64_t in, int64_t out, std::vector<int64_t> kernel,
                        TransposedOptions how = {}, bool bias = true, std::optional<Init> weight_init = {},
                        Here line = Here::current());
  Tensor operator()(Tensor x, Here at = Here::current()) const;  // [N, in, s...] -> [N, out, o...]
  Parameter weight, bias;

 private:
  std::string path_;
  TransposedOptions how_;
};

template <size_t Dims>
struct ConvolutionOf : Convolution {
  ConvolutionOf(Scope at, int64_t in, int64_t out, std::vector<int64_t> kernel, ConvolutionOptions how = {},
                bool bias = true, std::optional<Init> weight_init = {}, Here line = Here::current())
      : Convolution(std::move(at), Dims, in, out, std::move(kernel), std::move(how), bias, weight_init,
                    line) {}
};
template <size_t Dims>
struct TransposedConvolutionOf : TransposedConvolution {
  TransposedConvolutionOf(Scope at, int64_t in, int64_t out, std::vector<int64_t> kernel,
                          TransposedOptions how = {}, bool bias = true, std::optional<Init> weight_init = {},
                          Here line = Here::current())
      : TransposedConvolution(std::move(at), Dims, in, out, std::move(kernel), std::move(how), bias,
                              weight_init, line) {}
};
using Conv1d = ConvolutionOf<1>;
using Conv2d = ConvolutionOf<2>;
using Conv3d = ConvolutionOf<3>;
using ConvTranspose1d = TransposedConvolutionOf<1>;
using ConvTranspose2d = TransposedConvolutionOf<2>;
using ConvTranspose3d = TransposedConvolutionOf<3>;

// The functions of core/functions/spatial/pooling.h with their options, as members of a model.
struct MaxPool {
  std::vector<int64_t> size;
  PoolOptions how = {};
  Tensor operator()(Tensor x, Here at = Here::current()) const { return max_pool(x, size, how, at); }
};
struct AvgPool {
  std::vector<int64_t> size;
  PoolOptions how = {};
  Tensor operator()(Tensor x, Here at = Here::current()) const { return avg_pool(x, size, how, at); }
};
struct AdaptiveAvgPool {
  std::vector<int64_t> out;
  Tensor operator()(Tensor x, Here at = Here::current()) const { return adaptive_avg_pool(x, out, at); }
};
struct AdaptiveMaxPool {
  std::vector<int64_t> out;
  Tensor operator()(Tensor x, Here at = Here::current()) const { return adaptive_max_pool(x, out, at); }
};

}  // namespace lockstep
