// The template of conversations that a run was trained on, among the files of a tokenizer.
#pragma once

#include <optional>
#include <string>

#include "core/base/json.h"

namespace lockstep::launcher::hf {

// The tokenizer_config.json of an exported folder with the template in it. `trained`: {"name",
// "message_token", "jinja"} as a checkpoint keeps it; null: it was trained on no conversations. Nothing where
// the folder has no tokenizer, and where what it has writes messages with the same token, which may know more
// than ours does (tools, a system text of its own). Files of another template are removed from the folder.
std::optional<Json> with_chat_template(const std::string& folder, const Json& trained);

}  // namespace lockstep::launcher::hf
