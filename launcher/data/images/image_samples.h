// Folders of pictures as samples: a class per folder.
#pragma once

#include <memory>

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// Each path is a folder whose folders, sorted by name, are the classes 0, 1, ...; several paths have the same
// classes. A picture that is linked into several classes is a sample of each. Fields: floats [1 or 3, height,
// width], and, where they are asked for, "labels" i32[]. A picture is cut and resampled to the field's size,
// divided by 255, then (value - mean) / std per channel. Of the n pictures of a class the last
// round(n * validation) are kept for validation; these are cut at the center. How a training sample is cut and
// mirrored follows from seed, picture and epoch alone. Threads decode the samples of the next step while this
// one is computed. UserError for folders without pictures, for more classes than the model has, and naming the
// file where a picture cannot be read.
std::unique_ptr<Samples> image_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
