// Records as pairs: the input of an encoder, and the answer that a decoder learns.
#pragma once

#include <memory>

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// For kind jsonl. Fields: "ids" (a prompt, or a conversation up to its last answer), "decoder_ids" (the
// padding token, then the answer) and "targets" (the answer with its end token, then -100). Shorter rows end
// with the padding token (<pad> if the tokenizer has it), which the encoder sees. Validation as in
// document_samples. UserError as DocumentMaker, and when no record has both a given and a learnt part.
std::unique_ptr<Samples> pair_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
