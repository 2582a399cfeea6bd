// Members of tokenizer.json, each read with its type, or refused by its name.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "launcher/data/tokenizer/pattern.h"

namespace lockstep::launcher::data {

// Of an object `in`; UserError naming `who` and the member where it is absent or of another type.
std::string word_in(const nlohmann::json& in, const char* member, const std::string& who);
const nlohmann::json& list_in(const nlohmann::json& in, const char* member, const std::string& who);
const nlohmann::json& object_in(const nlohmann::json& in, const char* member, const std::string& who);
int64_t number_in(const nlohmann::json& in, const char* member, const std::string& who);
// A text of one character.
std::string character_in(const nlohmann::json& in, const char* member, const std::string& who);
// `otherwise` where it is absent or null.
bool flag_in(const nlohmann::json& in, const char* member, bool otherwise, const std::string& who);
// Of a list of ids of tokens.
int32_t id_in(const nlohmann::json& value, const char* member, const std::string& who);
// {"Regex": "..."} or {"String": "..."}.
Pattern pattern_in(const nlohmann::json& in, const char* member, const std::string& who);

}  // namespace lockstep::launcher::data
