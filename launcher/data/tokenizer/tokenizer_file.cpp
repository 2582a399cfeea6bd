// Members by type.
#include "launcher/data/tokenizer/tokenizer_file.h"

#include "core/base/error.h"

namespace lockstep::launcher::data {

namespace {
const nlohmann::json& member_of(const nlohmann::json& in, const char* member, const std::string& who,
                                nlohmann::json::value_t type, const char* wanted) {
  static const nlohmann::json none;
  const auto found = in.is_object() ? in.find(member) : in.end();
  const nlohmann::json& value = in.is_object() && found != in.end() ? *found : none;
  const bool fits =
      type == nlohmann::json::value_t::number_integer ? value.is_number_integer() : value.type() == type;
  if (!fits)
    throw UserError(str(who, ": \"", member, "\" is ", value.is_null() ? "not there" : value.type_name(),
                        ", and should be ", wanted, "; is this a tokenizer.json of Hugging Face?"));
  return value;
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
  return member_of(in, member, who, nlohmann::json::value_t::number_integer, "a whole number").get<int64_t>();
}
bool flag_in(const nlohmann::json& in, const char* member, bool otherwise) {
  const auto found = in.find(member);
  return found != in.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}
Pattern pattern_in(const nlohmann::json& in, const char* member, const std::string& who) {
  const nlohmann::json& pattern = object_in(in, member, who);
  if (pattern.contains("String")) return Pattern::literal(word_in(pattern, "String", who), who);
  return {word_in(pattern, "Regex", who), who};
}

}  // namespace lockstep::launcher::data
