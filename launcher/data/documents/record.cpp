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

// Who speaks, by the words of ShareGPT too.
std::string role_of(const std::string& word) {
  for (const char* other : {"human", "User", "Human"})
    if (word == other) return "user";
  for (const char* other : {"gpt", "chatgpt", "bing", "bard", "model", "bot"})
    if (word == other) return "assistant";
  return word;
}

// The member that a record of Alpaca or Dolly has of two names; null for none.
const Json* one_of_members(const Json& record, const char* name, const char* other) {
  for (const char* each : {name, other})
    if (record.contains(each)) return &record[each];
  return nullptr;
}

// Whether a message is learnt that may be: OpenAI's "weight" of 0 or 1, axolotl's "train" or "training". What
// is nobody's answer is never learnt.
bool learnt_of(const Json& message, bool answer, const std::string& where) {
  bool out = answer;
  auto no = [&](const char* member, const std::string& wanted) {
    throw UserError(str(where, ": the \"", member, "\" of a message is ",
                        shortened(printable(message[member].dump()), 40), ", ", wanted));
  };
  for (const char* member : {"weight", "train", "training"}) {
    if (!message.contains(member) || message[member].is_null()) continue;
    const Json& said = message[member];
    const bool weight = member == std::string_view("weight");
    const bool yes = weight ? said == 1 : said == true, none = weight ? said == 0 : said == false;
    if (!(weight ? said.is_number() : said.is_boolean()) || yes == none)
      no(member, weight ? "and weights of 0 (not learnt) and 1 are read; leave it out, or make it one of them"
                        : "and should be true or false");
    if (yes && !answer)
      no(member,
         "and messages of the role assistant alone are learnt; write what a model should learn to write "
         "as such a message, or as prompt and completion");
    out = out && yes;
  }
  if (message.contains("train_detail"))
    no("train_detail", "and messages are learnt as a whole, or not; take it out, and say train or weight");
  return out;
}

// A message's text: a string, or a list of parts of which each is text.
std::string content_of(const Json& message, const char* member, const std::string& where) {
  const Json& content = message[member];
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
    throw UserError(str(where, ": the \"", member, "\" of a message is ",
                        shortened(printable(content.dump()), 80),
                        ", and should be a text, or a list of {\"type\": \"text\", \"text\": ...}"));
  return out;
}
}  // namespace

namespace {
const ChatTemplate& template_of(const std::string& name) {
  if (const ChatTemplate* found = find_template(name)) return *found;
  const bool jinja = name.find('{') != std::string::npos || name.find(".jinja") != std::string::npos;
  throw UserError(str("data.template is \"", shortened(printable(name), 80), "\"",
                      jinja ? ", and templates of Jinja are not run" : ", which is none", "; choose chatml ",
                      "or llama3, or write each conversation as a record of prompt and completion "
                      "(transformers' apply_chat_template with tokenize=False gives the text)"));
}
}  // namespace

const std::vector<std::string>& chat_templates() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& row : templates()) out.emplace_back(row.name);
    return out;
  }();
  return names;
}

std::string chat_message_token(const std::string& chat_template) { return template_of(chat_template).open; }

std::string chat_jinja(const std::string& chat_template) {
  const ChatTemplate& form = template_of(chat_template);
  auto quoted = [](const std::string& text) {
    std::string out = "'";
    for (char c : text) out += c == '\n' ? std::string("\\n") : std::string(1, c);
    return out + "'";
  };
  return str(*form.begin ? "{{ " + quoted(form.begin) + " }}" : "", "{% for message in messages %}{{ ",
             quoted(form.open), " + message['role'] + ", quoted(form.role), " + message['content']",
             form.trimmed ? " | trim" : "", " + ", quoted(str(form.close, form.rest)),
             " }}{% endfor %}{% if add_generation_prompt %}{{ ",
             quoted(str(form.open, "assistant", form.role)), " }}{% endif %}");
}

ChatOpening chat_opening(const std::string& chat_template, const std::string& system,
                         const std::string& user) {
  const ChatTemplate& form = template_of(chat_template);
  std::string text = form.begin;
  auto message = [&](const char* role, const std::string& content) {
    text += str(form.open, role, form.role, form.trimmed ? trim(content) : content, form.close, form.rest);
  };
  if (!system.empty()) message("system", system);
  message("user", user);
  return {str(text, form.open, "assistant", form.role), form.close, form.specials};
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

RecordReader::RecordReader(const DataOptions& options) : options_(options) {
  template_of(options.chat_template);
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
  if (record.contains(o.messages_key)) return conversation(record[o.messages_key], o.messages_key, where);
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
  if (record.contains("conversations")) return conversation(record["conversations"], "conversations", where);
  if (const Json* answer = one_of_members(record, "output", "response");
      answer && record.contains("instruction")) {
    std::string asked = text_in(record, "instruction", where);
    const Json* input = one_of_members(record, "input", "context");
    if (input && input->is_string() && !input->get<std::string>().empty())
      asked += "\n" + input->get<std::string>();
    return conversation(
        Json::array({{{"role", "user"}, {"content", asked}}, {{"role", "assistant"}, {"content", *answer}}}),
        "instruction", where);
  }
  throw UserError(str(where, ": the record has no \"", o.text_key, "\", no \"", o.messages_key, "\", no \"",
                      o.prompt_key, "\" and \"", o.completion_key, "\"; it has: ", members_of(record),
                      "; name the member with the text in data.text (data.messages, data.prompt, "
                      "data.completion)"));
}

Record RecordReader::conversation(const Json& messages, const std::string& member,
                                  const std::string& where) const {
  const ChatTemplate& form = *find_template(options_.chat_template);
  if (!messages.is_array())
    throw UserError(str(where, ": \"", member, "\" is ", shortened(printable(messages.dump()), 80),
                        ", and should be a list of {\"role\": ..., \"content\": ...}"));
  Record out{{}, true};
  std::string between = form.begin;  // what no one said
  for (const auto& message : messages) {
    const bool shared = message.is_object() && message.contains("from") && message.contains("value");
    const char *who = shared ? "from" : "role", *said = shared ? "value" : "content";
    if (!message.is_object() || !message.contains(who) || !message[who].is_string() ||
        !message.contains(said))
      throw UserError(str(where, ": a message is ", shortened(printable(message.dump()), 80),
                          ", and should be {\"role\": ..., \"content\": ...}"));
    const std::string role = role_of(message[who].get<std::string>());
    std::string content = content_of(message, said, where);
    if (form.trimmed) content = trim(content);
    const bool learnt = learnt_of(message, role == "assistant", where);
    between += str(form.open, role, form.role);
    if (learnt) {
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
