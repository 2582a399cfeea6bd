// Reads folders of pictures as samples: one class per folder.
#pragma once

#include <memory>

#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// Each path is a folder whose subfolders, sorted by name, are the classes 0, 1, ...; several paths share the
// same classes. A picture linked into several classes is a sample of each. Fields: floats [1 or 3, height,
// width] and, on request, "labels" i32[]. A picture is cropped and resampled to the field's size, divided by
// 255, then (value - mean) / std per channel. The last round(n * validation) of a class's n pictures are held
// out for validation and cropped at the center. Crop and mirroring of a training sample depend only on seed,
// picture and epoch. Threads decode the next step's samples during this step. UserError for folders without
// pictures, for more classes than the model has, and naming the file of an unreadable picture.
std::unique_ptr<Samples> image_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
