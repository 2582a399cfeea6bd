// Weighted sources of samples: which of them a sample is of follows from its number alone.
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
    int64_t index;  // among the samples of that source
  };
  Place at(int64_t sample) const;
  int64_t share(size_t source) const { return share_[source]; }  // samples of a period

 private:
  std::vector<int64_t> share_;
  std::vector<std::pair<int32_t, int32_t>> table_;  // of a period: source, index
};

// Sample g is the next one of the source that the mixture names; an epoch of a source is its own. Validation
// mixes the sources that keep some, up to where the first of them ends. Each source is opened with a seed of
// its own, so that two of one size are not read in one order. UserError as `open_source`, with the source in
// front: "data.sources[1]: ...".
using OpenSamples = std::function<std::unique_ptr<Samples>(const DataOptions& options,
                                                           const std::vector<SampleField>& fields)>;
std::unique_ptr<Samples> mixed_samples(const DataOptions& options, const std::vector<SampleField>& fields,
                                       const OpenSamples& open_source);

}  // namespace lockstep::launcher::data
