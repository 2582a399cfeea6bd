// Texts, or pairs of texts, and their classes as samples: one in each row.
#pragma once

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// Of kind jsonl. Fields: "ids", the text's tokens with what the tokenizer puts around a text, or around and
// between two, padded behind and cut to the row (what stands around stays, and of two texts the longer one is
// cut first); "lengths", how many they are; "token_type_ids", the segment of each token (0 in the padding);
// "labels". A label that is an
// integer is the class; one that is a name is its place in data.classes, or, without it, among all names of
// the data in the order of their bytes. Of the n records of a file the last round(n * validation) are kept
// for validation. UserError as DocumentMaker and read_labelled, and naming file and line for a label that is
// no class of the model; naming both numbers where the data has not as many names as the model classes.
std::unique_ptr<Samples> label_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
