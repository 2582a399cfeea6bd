// Documents as samples: rows of ids with their targets, and where they are packed, whose token each is.
#pragma once

#include <memory>

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// Of kind jsonl. Fields: "ids" and "targets" (-100 where the next token is not learnt); with data.pack
// documents also "documents" (a number for each document of a row) and "positions" (from 0 in each). Of "ids"
// and "special_tokens_mask" (1 where a token is not learnt) rows are full, records one after another. Of
// "decoder_ids" too: pair_samples.h; of "labels": label_samples.h. Of the n // documents of a file the last
// round(n * validation) are kept for validation. UserError as DocumentMaker, and where nothing is left to
// learn.
std::unique_ptr<Samples> document_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
