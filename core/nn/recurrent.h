// Recurrent layers. FQNs, shapes and the order of gates are those of PyTorch. The graph holds one step per
// token; equal steps share their kernels.
#pragma once

#include <string>
#include <vector>

#include "core/nn/layers.h"

namespace lockstep {

// `depth` layers of long short-term memory, H features each: Hochreiter and Schmidhuber, 1997. Layer I has
// weight_ih_lI [4H, in or H], weight_hh_lI [4H, H], bias_ih_lI and bias_hh_lI [4H], with rows for the input,
// forget, cell and output gates; all start uniform in +-1 / sqrt(H).
class Lstm {
 public:
  Lstm(const Scope& at, int64_t in, int64_t hidden, int64_t depth = 1, double dropout = 0,
       Here line = Here::current());
  // [sequences, tokens, in] -> [sequences, tokens, H]; the initial state is zero. Dropout is applied between
  // layers.
  Tensor operator()(Tensor x, Here at = Here::current()) const;

 private:
  struct Layer {
    Parameter weight_ih, weight_hh, bias_ih, bias_hh;
  };
  // [tokens, sequences, in] -> [tokens, sequences, H]
  Tensor run(const Layer& layer, Tensor x, Here at) const;
  std::string path_;
  int64_t hidden_;
  std::vector<Layer> layers_;
  Dropout dropout_;
};

}  // namespace lockstep
