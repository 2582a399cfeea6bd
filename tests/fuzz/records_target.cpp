// Fuzz target: a file of JSON lines, in rows of 8 bytes. The first byte chooses template and packing.
#include <vector>

#include "launcher/data/documents/document_samples.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::fuzz {

void records(std::string_view bytes) {
  using namespace launcher::data;
  static const ScratchFolder folder;
  if (bytes.empty()) return;
  const int chosen = bytes[0] & 7;
  bytes.remove_prefix(1);
  DataOptions options{.kind = "jsonl", .paths = {folder.write("r.jsonl", std::string(bytes))}};
  options.chat_template = chosen & 1 ? "chatml" : "llama3";
  options.pack = chosen & 4 ? "stream" : chosen & 2 ? "documents" : "none";
  options.validation = 0.25;
  std::vector<SampleField> fields;
  for (const char* name : {"ids", "targets", "documents", "positions"})
    if (fields.size() < 2 || options.pack == "documents") fields.push_back({name, DType::i32, {8}});
  answers([&] {
    const auto samples = document_samples(options, fields);
    std::vector<int32_t> rows[4];
    std::vector<void*> to;
    for (size_t i = 0; i < fields.size(); ++i) rows[i].resize(4 * 8), to.push_back(rows[i].data());
    samples->fill(0, 4, 0, 4, to);
    for (int32_t id : rows[0]) FUZZ_CHECK(id >= 0 && id < 256, id);
    for (int32_t target : rows[1]) FUZZ_CHECK(target == -100 || (target >= 0 && target < 256), target);
    for (int64_t i = 0; i < samples->validation(); ++i) samples->fill_validation(i, 1, to);
  });
}

}  // namespace lockstep::fuzz
