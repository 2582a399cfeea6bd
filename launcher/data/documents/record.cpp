// Members and roles; the chat templates.
#include "launcher/data/documents/record.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep::launcher::data {

namespace {
// What stands around a message. Those of the models' own tokenizers: ChatML of Qwen, Llama 3's.
struct ChatTemplate {
  const char* name;
  const char* begin;        // before the first message
  const char *open, *role;  // before and behind the role
  const char* close;        // of a message; it counts with the answer
  const char* rest;         // behind that
  bool trimmed;             // content without white space around it
  std::vector<std::string> specials;
};
const std::vector<ChatTemplate>& templates() {
  static const std::vector<ChatTemplate> all = {
      {"chatml", "", "<|im_start|>", "\n", "<|im_end|>", "\n", false, {"<|im_start|>", "<|im_end|>"}},
      {"llama3",
       "<|begin_of_text|>",
       "<|start_header_id|>",
       "<|end_header_id|>\n\n",
       "<|eot_id|>",
       "",
       true,
       {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}}};
  return all;
}
const ChatTemplate* find_template(const std::string& name) {
  for (const auto& row : templates())
    if (name == row.name) return &row;
  return nullptr;
}

std::string members_of(const Json& record) {
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) names.push_back(shortened(printable(name), 40));
  names.resize(std::min<size_t>(names.size(), 12));
  return names.empty() ? "none" : join(names, ", ");
}

std::string text_in(const Json& record, const std::string& member, const std::string& where) {
  const Json& value = record[member];
  if (!value.is_string())
    throw UserError(str(where, ": \"", member, "\" is ", shortened(printable(value.dump()), 80),
                        ", and should be a text; take the record out, or name another member"));
  return value.get<std::string>();
}

// A message's text: a string, or a list of parts of which each is text.
std::string content_of(const Json& message, const std::string& where) {
  const Json& content = message["content"];
  if (content.is_string()) return content.get<std::string>();
  std::string out;
  bool all = content.is_array();
  if (all)
    for (const auto& part : content) {
      all = part.is_object() && part.contains("text") && part["text"].is_string();
      if (!all) break;
      out += part["text"].get<std::string>();
    }
  if (!all)
    throw UserError(str(where, ": the \"content\" of a message is ", shortened(printable(content.dump()), 80),
                        ", and should be a text, or a list of {\"type\": \"text\", \"text\": ...}"));
  return out;
}
}  // namespace

RecordReader::RecordReader(const DataOptions& options) : options_(options) {
  const std::string& name = options.chat_template;
  if (find_template(name)) return;
  const bool jinja = name.find('{') != std::string::npos || name.find(".jinja") != std::string::npos;
  throw UserError(str("data.template is \"", shortened(printable(name), 80), "\"",
                      jinja ? ", and templates of Jinja are not run" : ", which is none", "; choose chatml ",
                      "or llama3, or write each conversation as a record of prompt and completion "
                      "(transformers' apply_chat_template with tokenize=False gives the text)"));
}

std::vector<std::string> RecordReader::special_tokens() const {
  return find_template(options_.chat_template)->specials;
}
std::string RecordReader::text() const {
  return str(options_.text_key, " ", options_.prompt_key, " ", options_.completion_key, " ",
             options_.messages_key, " ", options_.chat_template);
}

Record RecordReader::read(const Json& record, const std::string& where) const {
  const DataOptions& o = options_;
  if (record.contains(o.messages_key)) return conversation(record[o.messages_key], where);
  const bool prompt = record.contains(o.prompt_key), completion = record.contains(o.completion_key);
  if (prompt && completion)
    return {{{text_in(record, o.prompt_key, where), false}, {text_in(record, o.completion_key, where), true}},
            false};
  if (record.contains(o.text_key) && !prompt && !completion)
    return {{{text_in(record, o.text_key, where), true}}, false};
  if (prompt || completion)
    throw UserError(str(where, ": the record has \"", prompt ? o.prompt_key : o.completion_key,
                        "\" and no \"", prompt ? o.completion_key : o.prompt_key, "\"; it has: ",
                        members_of(record), "; name the members in data.prompt and data.completion"));
  throw UserError(str(where, ": the record has no \"", o.text_key, "\", no \"", o.messages_key, "\", no \"",
                      o.prompt_key, "\" and \"", o.completion_key, "\"; it has: ", members_of(record),
                      "; name the member with the text in data.text (data.messages, data.prompt, "
                      "data.completion)"));
}

Record RecordReader::conversation(const Json& messages, const std::string& where) const {
  const ChatTemplate& form = *find_template(options_.chat_template);
  if (!messages.is_array())
    throw UserError(str(where, ": \"", options_.messages_key, "\" is ",
                        shortened(printable(messages.dump()), 80),
                        ", and should be a list of {\"role\": ..., \"content\": ...}"));
  Record out{{}, true};
  std::string between = form.begin;  // what no one said
  for (const auto& message : messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
        !message.contains("content"))
      throw UserError(str(where, ": a message is ", shortened(printable(message.dump()), 80),
                          ", and should be {\"role\": ..., \"content\": ...}"));
    const std::string role = message["role"].get<std::string>();
    std::string content = content_of(message, where);
    if (form.trimmed) content = trim(content);
    between += str(form.open, role, form.role);
    if (role == "assistant") {
      out.parts.push_back({std::move(between), false});
      out.parts.push_back({content + form.close, true});
      between = form.rest;
    } else {
      between += content + form.close + form.rest;
    }
  }
  if (!between.empty()) out.parts.push_back({std::move(between), false});
  return out;
}

}  // namespace lockstep::launcher::data
