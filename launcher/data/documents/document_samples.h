// Documents as samples: rows of ids with their targets and, if packed, the document of each token.
#pragma once

#include <memory>

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// For kind jsonl. Fields: "ids" and "targets" (-100 when the next token is not learnt); with data.pack
// documents also "documents" (a number for each document of a row) and "positions" (from 0 in each). With the
// fields "ids" and "special_tokens_mask" (1 for a token that is not learnt), rows are full and join
// consecutive records. With "decoder_ids" see pair_samples.h, with "labels" label_samples.h. The last round(n
// * validation) of a file's n documents are held out for validation. UserError as DocumentMaker, and when
// nothing is left to learn.
std::unique_ptr<Samples> document_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
