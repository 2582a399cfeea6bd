// Writes a run's chat template into the files of an exported tokenizer.
#pragma once

#include <optional>
#include <string>

#include "core/base/json.h"

namespace lockstep::launcher::hf {

// The tokenizer_config.json of an exported folder with the template in it. `trained`: {"name",
// "message_token", "jinja"} as stored in a checkpoint; null: not trained on conversations. Does nothing if
// the folder has no tokenizer, or has a template with the same message token, which may support more than
// ours (tools, a default system text). Files of another template are removed from the folder.
std::optional<Json> with_chat_template(const std::string& folder, const Json& trained);

}  // namespace lockstep::launcher::hf
