// Whether a step computes something else on small micro-batches than on the whole batch at once. It does if
// it mixes their samples, like batch norm or losses with in-batch negatives, or reads their number.
#pragma once

#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// A node of a traced step, and how micro-batches change its results:
//   - samples: a sample's values depend on other samples of its micro-batch
//   - place: a sample's values depend on its place in the micro-batch, or a value depends on the number of
//     samples
//   - size: a sum over micro-batches, a loss, a metric or a state changes by a factor. One cause is a sum
//     over samples divided by a number that is the same for each micro-batch
//   - draw: random numbers that the samples share are drawn again for each micro-batch
enum class Change { samples, place, size, draw };
struct Mixing {
  OpId op;
  SourceLine at;
  Change change = Change::samples;
};
// Compares a step traced on some samples, 2 or more, with the same step traced on the whole batch or on
// another number of samples. Returns one entry for each line of the user's program, in the order of the
// graph. There is none if every value belongs to one sample, or to no sample, or is a sum over samples that
// enters losses, counts, metrics and statistics of the step in proportion to them.
// The batch dim is followed from dim 0 of the batch inputs, and from all values whose sizes follow from
// theirs. It is followed through placement rules, reshapes, and gathers of a sample's own elements. Random
// numbers of such sizes belong to the samples. Those of other sizes are noise on weights if they meet
// weights, or are multiplied with samples as weights are; they mix nothing there. If the function wrote two
// different programs, the first node that differs is of `place`.
std::vector<Mixing> mixed_samples(const Graph& some, const Graph& whole);

// "mixes the samples of", "uses places in or the size of": a verb before "a micro-batch".
std::string_view verb(Change change);

}  // namespace lockstep::compiler
