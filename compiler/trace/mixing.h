// Whether a step mixes the samples of its micro-batch: then it computes something else on small ones than on
// the whole batch at once, as batch norm and losses with negatives of the batch do.
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// A node of a traced step through which a sample's values depend on other samples of its micro-batch.
struct Mixing {
  OpId op;
  SourceLine at;
};
// One for each line of the user's, in the order of the graph; none where every value is of one sample, or of
// none, or a sum over samples that goes into losses, counts, metrics and statistics of the step as it is. The
// batch dim is followed from the batch inputs, dim 0, through placement rules, reshapes, and gathers of a
// sample's own elements. Random numbers whose dim 0 is a multiple of the batch are the samples' own, unless
// they meet weights that differ along it, or no dim of samples: noise on weights mixes nothing. Micro-batches
// have 2 or more samples: of one nothing is known.
std::vector<Mixing> mixed_samples(const Graph& traced);

}  // namespace lockstep::compiler
