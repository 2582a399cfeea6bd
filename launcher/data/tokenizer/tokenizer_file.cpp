// Reads members of tokenizer.json by type.
#include "launcher/data/tokenizer/tokenizer_file.h"

#include <cstdint>

#include "core/base/error.h"
#include "launcher/data/tokenizer/unicode_class.h"

namespace lockstep::launcher::data {

namespace {
[[noreturn]] void refuse(const nlohmann::json& value, const char* member, const std::string& who,
                         const char* wanted) {
  throw UserError(str(who, ": \"", member, "\" is ",
                      value.is_null()         ? std::string("not there")
                      : value.is_structured() ? std::string(value.type_name())
                                              : shortened(printable(value.dump()), 40),
                      ", and should be ", wanted, "; is this a tokenizer.json of Hugging Face?"));
}
const nlohmann::json& member_of(const nlohmann::json& in, const char* member) {
  static const nlohmann::json none;
  const auto found = in.is_object() ? in.find(member) : in.end();
  return in.is_object() && found != in.end() ? *found : none;
}
const nlohmann::json& member_of(const nlohmann::json& in, const char* member, const std::string& who,
                                nlohmann::json::value_t type, const char* wanted) {
  const nlohmann::json& value = member_of(in, member);
  if (value.type() != type) refuse(value, member, who, wanted);
  return value;
}
int64_t whole(const nlohmann::json& value, const char* member, const std::string& who) {
  const bool fits =
      value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{INT64_MAX} : value.is_number_integer();
  if (!fits) refuse(value, member, who, "a whole number");
  return value.get<int64_t>();
}
}  // namespace

std::string word_in(const nlohmann::json& in, const char* member, const std::string& who) {
  return member_of(in, member, who, nlohmann::json::value_t::string, "a text").get<std::string>();
}
const nlohmann::json& list_in(const nlohmann::json& in, const char* member, const std::string& who) {
  return member_of(in, member, who, nlohmann::json::value_t::array, "a list");
}
const nlohmann::json& object_in(const nlohmann::json& in, const char* member, const std::string& who) {
  return member_of(in, member, who, nlohmann::json::value_t::object, "an object");
}
int64_t number_in(const nlohmann::json& in, const char* member, const std::string& who) {
  return whole(member_of(in, member), member, who);
}
std::string character_in(const nlohmann::json& in, const char* member, const std::string& who) {
  const std::string word = word_in(in, member, who);
  size_t bytes = 0;
  if (word.empty() || (character_at(word, 0, bytes), bytes != word.size()))
    refuse(member_of(in, member), member, who, "one character");
  return word;
}
bool flag_in(const nlohmann::json& in, const char* member, bool otherwise, const std::string& who) {
  const nlohmann::json& value = member_of(in, member);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) refuse(value, member, who, "true or false");
  return value.get<bool>();
}
int32_t id_in(const nlohmann::json& value, const char* member, const std::string& who) {
  const int64_t id = whole(value, member, who);
  if (id < 0 || id > INT32_MAX) refuse(value, member, who, "the id of a token");
  return static_cast<int32_t>(id);
}
Pattern pattern_in(const nlohmann::json& in, const char* member, const std::string& who) {
  const nlohmann::json& pattern = object_in(in, member, who);
  if (pattern.contains("String")) return Pattern::literal(word_in(pattern, "String", who), who);
  return {word_in(pattern, "Regex", who), who};
}

}  // namespace lockstep::launcher::data
