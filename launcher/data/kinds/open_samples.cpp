// The choice between kinds.
#include "launcher/data/kinds/open_samples.h"

#include "launcher/data/documents/document_samples.h"
#include "launcher/data/images/image_samples.h"
#include "launcher/data/kinds/mixture.h"

namespace lockstep::launcher::data {

std::unique_ptr<Samples> open_samples(const DataOptions& options, const std::vector<SampleField>& fields) {
  if (!options.sources.empty()) return mixed_samples(options, fields, open_samples);
  if (options.kind == "arrays") return array_samples(options, fields);
  if (options.kind == "images") return image_samples(options, fields);
  if (options.kind == "jsonl") return document_samples(options, fields);
  return token_samples(options, fields);
}

}  // namespace lockstep::launcher::data
