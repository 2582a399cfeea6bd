// Weighted sources of samples: a sample's source depends only on its number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// Of every kPeriod samples in a row, source k gives its share of the weights, rounded to whole samples (by
// the largest remainders), spread evenly.
class Mixture {
 public:
  static constexpr int64_t kPeriod = 65536;
  // UserError naming data.sources for a weight that is not above 0, or whose share is below one sample.
  explicit Mixture(const std::vector<double>& weights);
  struct Place {
    int32_t source;
    int64_t index;  // index among that source's samples
  };
  Place at(int64_t sample) const;
  int64_t share(size_t source) const { return share_[source]; }  // samples of a period

 private:
  std::vector<int64_t> share_;
  std::vector<std::pair<int32_t, int32_t>> table_;  // for a period: source, index
};

// Sample g is the next one of the source that the mixture chooses; each source has its own epochs. Validation
// mixes the sources that hold out samples, until the first of them ends. Each source has its own seed, so
// that two of equal size are read in different orders. UserError as `open_source`, prefixed by the source:
// "data.sources[1]: ...".
using OpenSamples = std::function<std::unique_ptr<Samples>(const DataOptions& options,
                                                           const std::vector<SampleField>& fields)>;
std::unique_ptr<Samples> mixed_samples(const DataOptions& options, const std::vector<SampleField>& fields,
                                       const OpenSamples& open_source);

}  // namespace lockstep::launcher::data
