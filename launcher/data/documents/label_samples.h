// Labelled texts, or pairs of texts, as samples: one per row.
#pragma once

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// For kind jsonl. Fields: "ids", the text's tokens with the tokenizer's frame, padded at the end and cut to
// the row (the frame stays; of two texts the longer one is cut first); "lengths", the number of tokens;
// "token_type_ids", the segment of each token (0 in the padding); "labels". An integer label is the class.
// The class of a name is its index in data.classes or, without that key, among all names of the data in byte
// order. The last round(n * validation) of a file's n records are held out for validation. UserError as
// DocumentMaker and read_labelled; naming file and line for a label that is not a class of the model; naming
// both numbers when the data has fewer or more names than the model has classes.
std::unique_ptr<Samples> label_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
