// From the options of data to its samples, whatever their kind.
#pragma once

#include <memory>

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// Opens the files that the options name, for these fields: token_samples, document_samples, image_samples,
// array_samples, and mixed_samples of several sources of one of these kinds. UserError as they say; where
// files are missing, also what data of the kind are and how they are made.
std::unique_ptr<Samples> open_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
