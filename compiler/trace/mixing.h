// Whether a step computes something else on small micro-batches than on the whole batch at once: where it
// mixes their samples, as batch norm and losses with negatives of the batch do, or reads how many they are.
#pragma once

#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// A node of a traced step, and how micro-batches change what comes of it:
//   samples: a sample's values depend on other samples of its micro-batch
//   place:   a sample's values depend on its place in the micro-batch, or a value on how many samples there
//   are size:    a sum over micro-batches, a loss, a metric or a state comes out larger or smaller by a
//   factor, as
//            where sums over samples are divided by a number that is the same for each micro-batch
//   draw:    random numbers that the samples have in common are drawn anew for each micro-batch
enum class Change { samples, place, size, draw };
struct Mixing {
  OpId op;
  SourceLine at;
  Change change = Change::samples;
};
// Of a step traced on some samples, 2 or more, beside the same step traced on the whole batch, or on another
// number of them: one for each line of the user's, in the order of the graph. None where every value is of
// one sample, or of none, or a sum over samples that goes into losses, counts, metrics and statistics of the
// step in proportion to them. The batch dim is followed from the batch inputs, dim 0, and from all that is
// made in sizes that follow from theirs, through placement rules, reshapes, and gathers of a sample's own
// elements. Random numbers of such sizes are the samples' own; those of other sizes are noise on weights
// where they meet them, or are multiplied with samples as weights are, and mix nothing there. Where the
// function wrote two different programs, the first node that differs is of `place`.
std::vector<Mixing> mixed_samples(const Graph& some, const Graph& whole);

// "mixes the samples of", "uses places in or the size of": a verb before "a micro-batch".
std::string_view verb(Change change);

}  // namespace lockstep::compiler
