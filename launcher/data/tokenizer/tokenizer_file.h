// Reads members of tokenizer.json with their types; an error names the member.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "launcher/data/tokenizer/pattern.h"

namespace lockstep::launcher::data {

// Read from object `in`; UserError naming `who` and the member if it is absent or has another type.
std::string word_in(const nlohmann::json& in, const char* member, const std::string& who);
const nlohmann::json& list_in(const nlohmann::json& in, const char* member, const std::string& who);
const nlohmann::json& object_in(const nlohmann::json& in, const char* member, const std::string& who);
int64_t number_in(const nlohmann::json& in, const char* member, const std::string& who);
// A text of one character.
std::string character_in(const nlohmann::json& in, const char* member, const std::string& who);
// `otherwise` if it is absent or null.
bool flag_in(const nlohmann::json& in, const char* member, bool otherwise, const std::string& who);
// Reads a list of token ids.
int32_t id_in(const nlohmann::json& value, const char* member, const std::string& who);
// {"Regex": "..."} or {"String": "..."}.
Pattern pattern_in(const nlohmann::json& in, const char* member, const std::string& who);

}  // namespace lockstep::launcher::data
