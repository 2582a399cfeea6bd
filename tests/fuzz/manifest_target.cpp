// Fuzz target: a checkpoint's manifest, as it is and with its own checksum made right, so that no check hides
// behind it.
#include "checkpoint/format/manifest.h"
#include "core/base/hash.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

namespace {
void read(std::string_view text) {
  checkpoint::Manifest manifest;
  if (!answers([&] { manifest = checkpoint::parse_manifest(text, "manifest.json"); })) return;
  const std::string printed = checkpoint::to_text(manifest);
  FUZZ_CHECK(checkpoint::to_text(checkpoint::parse_manifest(printed, "printed.json")) == printed, printed);
  for (const auto& tensor : manifest.tensors)
    FUZZ_CHECK(manifest.find(tensor.fqn)->fqn == tensor.fqn, tensor.fqn);
}
}  // namespace

void manifest(std::string_view bytes) {
  read(bytes);
  if (bytes.size() > 65536) return;
  Json json = Json::parse(bytes, nullptr, false);
  if (!json.is_object() || !json.contains("checksum")) return;
  json.erase("checksum");
  json["checksum"] = hash_hex(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  read(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace lockstep::fuzz
