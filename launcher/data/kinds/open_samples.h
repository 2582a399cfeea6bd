// Opens the samples of any kind from the options.
#pragma once

#include <memory>

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// Opens the files that the options name, for these fields: token_samples, document_samples, image_samples,
// array_samples, and mixed_samples of several sources of one of these kinds. UserError as they document; for
// missing files the message also says what data of the kind are and how to make them.
std::unique_ptr<Samples> open_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
