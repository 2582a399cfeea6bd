// Opens samples of the configured kind.
#include "launcher/data/kinds/open_samples.h"

#include <algorithm>

#include "launcher/data/documents/document_samples.h"
#include "launcher/data/files.h"
#include "launcher/data/images/image_samples.h"
#include "launcher/data/kinds/mixture.h"

namespace lockstep::launcher::data {

namespace {
bool has(const std::vector<SampleField>& fields, std::string_view name) {
  return std::any_of(fields.begin(), fields.end(), [&](const auto& field) { return field.name == name; });
}

// "images f32[3,32,32], labels i32[] of 0 to 9", and the line of Python that writes them.
std::string arrays_made(const DataOptions& options, const std::vector<SampleField>& fields) {
  std::vector<std::string> words, given;
  for (const auto& field : fields) {
    if (field.zeros) continue;
    words.push_back(text(field) + (field.below > 0 ? str(" of 0 to ", field.below - 1) : ""));
    given.push_back(field.name + "=...");
  }
  const std::string& path = options.paths[0];
  return str("reads arrays of NumPy, whose first dim counts samples of ", join(words, ", "),
             "; in Python numpy.savez(\"", path.ends_with(".npz") ? path : "data.npz", "\", ",
             join(given, ", "), ") writes them, and configs/README.md has a line that makes some to try");
}

// Describes data of the kind and how to make them, for users who have none yet.
std::string made(const DataOptions& options, const std::vector<SampleField>& fields) {
  if (options.kind == "arrays") return arrays_made(options, fields);
  if (options.kind == "images")
    return "reads .png and .jpg files below a folder for each class, as in DIR/cat/1.png and DIR/dog/1.png; "
           "data.paths names DIR";
  if (options.kind == "tokens")
    return str(
        "reads ids that a tokenizer made, ", options.dtype,
        ": python3 bench/gpu/make_tokens.py --out FILE.bin FOLDER, in Lockstep's source, makes them of "
        "text; --data.kind=text reads text as it is");
  if (options.kind == "jsonl" && has(fields, "labels"))
    return str(
        "reads JSON lines, as json.dumps({\"", options.text_key, "\": \"a fine film\", \"", options.label_key,
        "\": ", options.classes.empty() ? "0" : "\"" + printable(options.classes.back()) + "\"",
        "}) in Python writes one for each text, and configs/README.md has a line that makes some to try");
  if (options.kind == "jsonl")
    return str("reads JSON lines, as json.dumps({\"", options.text_key,
               "\": \"...\"}) in Python writes one for each text; or with \"", options.messages_key,
               "\", or \"", options.prompt_key, "\" and \"", options.completion_key, "\"");
  return "reads files of text, and the folders that hold them";
}
}  // namespace

std::unique_ptr<Samples> open_samples(const DataOptions& options, const std::vector<SampleField>& fields) {
  if (!options.sources.empty()) return mixed_samples(options, fields, open_samples);
  try {
    if (options.kind == "arrays") return array_samples(options, fields);
    if (options.kind == "images") return image_samples(options, fields);
    if (options.kind == "jsonl") return document_samples(options, fields);
    return token_samples(options, fields);
  } catch (const MissingData& error) {
    throw UserError(str(error.what(), ". data.kind ", options.kind, " ", made(options, fields),
                        "; --data.paths=[PATH] names yours"));
  }
}

}  // namespace lockstep::launcher::data
