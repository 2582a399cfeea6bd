// Fuzz target: config.json of Hugging Face. What is read of it can be written again, and reads as the same.
#include "launcher/hf/config.h"
#include "launcher/hf/folder.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

using namespace launcher;

void hf_config(std::string_view bytes) {
  Json given;
  if (!answers([&] { given = hf::config_json(bytes, "config.json"); })) return;
  hf::HfModel model;
  if (!answers([&] { model = hf::model_of(given, "config.json"); })) return;
  const Json whole = hf::complete(*model.family, model.options, 48);
  const Json again = hf::config_of(*model.family, whole, given, "float32");
  hf::HfModel read;
  FUZZ_CHECK(answers([&] { read = hf::model_of(again, "again"); }), again.dump());
  FUZZ_CHECK(hf::complete(*read.family, read.options, 48) == whole, again.dump());
}

}  // namespace lockstep::fuzz
