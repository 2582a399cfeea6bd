// Records as pairs: what is given to an encoder, and what a decoder learns to write.
#pragma once

#include <memory>

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// Of kind jsonl. Fields: "ids" (a prompt, or all of a conversation before its last answer, from its first
// token on), "decoder_ids" (the padding token, then the answer) and "targets" (the answer with its end; -100
// behind it). Places behind the shorter ones hold the padding token, <pad> where the tokenizer has it; the
// encoder sees them. Validation as document_samples. UserError as DocumentMaker, and where no record has a
// part that is given and one that is learnt.
std::unique_ptr<Samples> pair_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
