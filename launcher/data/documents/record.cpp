// Reads the members and roles of records; defines the chat templates.
#include "launcher/data/documents/record.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep::launcher::data {

namespace {
// The text around a message, as in the models' own tokenizers: Qwen's ChatML, Llama 3's.
struct ChatTemplate {
  const char* name;
  const char* begin;        // before the first message
  const char *open, *role;  // before and after the role
  const char* close;        // end of a message; learnt together with the answer
  const char* rest;         // text after that
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
const ChatTemplate& template_of(const std::string& name) {
  for (const auto& row : templates())
    if (name == row.name) return row;
  const bool jinja = name.find('{') != std::string::npos || name.find(".jinja") != std::string::npos;
  throw UserError(
      str("data.template is \"", shortened(printable(name), 80), "\"",
          jinja ? ", and templates of Jinja are not run" : ", which is none",
          "; choose chatml or llama3, or write each conversation as a record of prompt and completion "
          "(transformers' apply_chat_template with tokenize=False gives the text)"));
}
std::string message_of(const ChatTemplate& form, const std::string& role, const std::string& content) {
  return str(form.open, role, form.role, form.trimmed ? trim(content) : content, form.close, form.rest);
}

// The speakers, including ShareGPT's names.
std::string role_of(const std::string& word) {
  for (const char* other : {"human", "User", "Human"})
    if (word == other) return "user";
  for (const char* other : {"gpt", "chatgpt", "bing", "bard", "model", "bot"})
    if (word == other) return "assistant";
  return word;
}

// Members that say whether something is learnt: OpenAI's "weight" of 0 or 1, axolotl's "train" or "training",
// ms-swift's "loss". The others are refused: tools read them differently, or they apply to only a part.
constexpr const char* kWeights[] = {"weight", "loss_weight"};
constexpr const char* kSwitches[] = {"train", "training", "loss"};
constexpr const char* kUnclear[] = {"train_detail", "mask", "masked", "loss_mask"};
// Names of members that accompany a text but are not part of it.
constexpr const char* kBeside[] = {"id",       "idx",  "index",    "uuid",  "source",    "url",    "meta",
                                   "metadata", "lang", "language", "split", "timestamp", "dataset"};

template <size_t n>
bool among(const char* const (&names)[n], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}
bool is_empty(const Json& value) {
  return value.is_null() || value == "" || (value.is_array() && value.empty());
}

// A message's text: a string, or a list of parts of which each is text.
std::string content_of(const Json& message, const char* member, const std::string& where) {
  const Json& content = message[member];
  if (content.is_string()) return content.get<std::string>();
  std::string out;
  bool all = content.is_array();
  if (all)
    for (const auto& part : content) {
      const std::string type = part.is_object() && part.contains("type") ? part["type"].dump() : "\"text\"";
      all = part.is_object() && part.contains("text") && part["text"].is_string() &&
            (type == "\"text\"" || type == "\"input_text\"" || type == "\"output_text\"");
      if (!all) break;
      out += part["text"].get<std::string>();
    }
  if (!all)
    throw UserError(str(where, ": the \"", member, "\" of a message is ", value_text(content),
                        ", and should be a text, or a list of {\"type\": \"text\", \"text\": ...}"));
  return out;
}

// Only the assistant's messages can be learnt, whatever the member says.
void check_asked(const Json& message, const std::string& where) {
  auto refuse = [&](const char* member) {
    throw UserError(
        str(where, ": the \"", member, "\" of a message is ", message[member].dump(),
            ", and messages of the role assistant alone are learnt; write what a model should learn "
            "to write as such a message, or as prompt and completion"));
  };
  for (const char* member : kWeights)
    if (message.contains(member) && message[member] == 1) refuse(member);
  for (const char* member : kSwitches)
    if (message.contains(member) && message[member] == true) refuse(member);
}
void check_calls(const Json& message, const std::string& where) {
  for (const char* member : {"tool_calls", "function_call"})
    if (message.contains(member) && !is_empty(message[member]))
      throw UserError(
          str(where, ": the \"", member, "\" of a message is ", value_text(message[member]),
              ", and calls of tools are not read; write the call into the message's content, or take "
              "the record out"));
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
  const std::string first = system.empty() ? "" : message_of(form, "system", system);
  return {str(form.begin, first, message_of(form, "user", user), form.open, "assistant", form.role),
          form.close, form.specials};
}

std::string value_text(const Json& value) { return shortened(printable(value.dump()), 80); }
std::string members_of(const Json& record) {
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) names.push_back(shortened(printable(name), 40));
  names.resize(std::min<size_t>(names.size(), 12));
  return names.empty() ? "none" : join(names, ", ");
}

void note_unread(const Json& of, const std::vector<std::string>& read, const char* what,
                 std::vector<std::string>& unread) {
  for (const auto& [name, value] : of.items()) {
    const bool known = among(kWeights, name) || among(kSwitches, name) || among(kBeside, name) ||
                       std::find(read.begin(), read.end(), name) != read.end();
    const std::string shown = str('"', shortened(printable(name), 40), '"', what);
    if (!known && !is_empty(value) && std::find(unread.begin(), unread.end(), shown) == unread.end())
      unread.push_back(shown);
  }
}

bool learnt_of(const Json& of, const std::string& what, const std::string& where) {
  bool out = true;
  auto no = [&](const char* member, const char* why) {
    throw UserError(str(where, ": the \"", member, "\" of ", what, " is ",
                        shortened(printable(of[member].dump()), 40), ", ", why));
  };
  auto said = [&](const char* member) { return of.contains(member) && !of[member].is_null(); };
  for (const char* member : kWeights) {
    if (!said(member)) continue;
    if (!of[member].is_number() || (of[member] != 0 && of[member] != 1))
      no(member, "and weights of 0 (not learnt) and 1 are read; leave it out, or make it one of them");
    out = out && of[member] == 1;
  }
  for (const char* member : kSwitches) {
    if (!said(member)) continue;
    if (!of[member].is_boolean()) no(member, "and should be true or false");
    out = out && of[member] == true;
  }
  for (const char* member : kUnclear)
    if (said(member))
      no(member, "and what is learnt is a whole record or message; take it out, and say train or weight");
  return out;
}

std::string text_in(const Json& record, const std::string& member, const std::string& where) {
  const Json& value = record[member];
  if (!value.is_string())
    throw UserError(str(where, ": \"", member, "\" is ", value_text(value),
                        ", and should be a text; take the record out, or name another member"));
  return value.get<std::string>();
}

RecordReader::RecordReader(const DataOptions& options) : options_(options) {
  template_of(options.chat_template);
}

std::vector<std::string> RecordReader::special_tokens() const {
  return template_of(options_.chat_template).specials;
}
std::string RecordReader::text() const {
  return str(options_.text_key, " ", options_.prompt_key, " ", options_.completion_key, " ",
             options_.messages_key, " ", options_.chat_template);
}

Record RecordReader::read(const Json& record, const std::string& where) const {
  Record out = of_members(record, where);
  if (!learnt_of(record, "the record", where))
    for (auto& part : out.parts) part.counts = false;
  return out;
}

Record RecordReader::of_members(const Json& record, const std::string& where) const {
  const DataOptions& o = options_;
  Record out;
  if (record.contains(o.messages_key)) return conversation(record, o.messages_key, where);
  const bool prompt = record.contains(o.prompt_key), completion = record.contains(o.completion_key);
  if (prompt && completion) {
    out.parts.push_back({text_in(record, o.prompt_key, where), false});
    out.parts.push_back({text_in(record, o.completion_key, where), true});
    note_unread(record, {o.prompt_key, o.completion_key}, "", out.unread);
    return out;
  }
  if (record.contains(o.text_key) && !prompt && !completion) {
    out.parts.push_back({text_in(record, o.text_key, where), true});
    note_unread(record, {o.text_key}, "", out.unread);
    return out;
  }
  if (prompt || completion)
    throw UserError(str(where, ": the record has \"", prompt ? o.prompt_key : o.completion_key,
                        "\" and no \"", prompt ? o.completion_key : o.prompt_key, "\"; it has: ",
                        members_of(record), "; name the members in data.prompt and data.completion"));
  if (record.contains("conversations")) return conversation(record, "conversations", where);
  if (record.contains("instruction") && (record.contains("output") || record.contains("response")))
    return instruction(record, where);
  throw UserError(str(where, ": the record has no \"", o.text_key, "\", no \"", o.messages_key, "\", no \"",
                      o.prompt_key, "\" and \"", o.completion_key, "\"; it has: ", members_of(record),
                      "; name the member with the text in data.text (data.messages, data.prompt, "
                      "data.completion)"));
}

// Alpaca or Dolly: a user's message and its answer.
Record RecordReader::instruction(const Json& record, const std::string& where) const {
  const char *answer = record.contains("output") ? "output" : "response",
             *input = record.contains("input") ? "input" : "context";
  if (record.contains("history") && !is_empty(record["history"]))
    throw UserError(str(where, ": \"history\" is ", value_text(record["history"]),
                        ", and what was said before an instruction is not read; write the conversation as "
                        "\"messages\" of role and content"));
  std::string asked = text_in(record, "instruction", where);
  if (record.contains(input) && !is_empty(record[input])) asked += "\n" + text_in(record, input, where);
  Json as = {{"instruction", Json::array({{{"role", "user"}, {"content", asked}},
                                          {{"role", "assistant"}, {"content", record[answer]}}})}};
  if (record.contains("system")) as["system"] = record["system"];
  Record out = conversation(as, "instruction", where);
  note_unread(record, {"instruction", answer, input, "history", "system"}, "", out.unread);
  return out;
}

Record RecordReader::conversation(const Json& record, const std::string& member,
                                  const std::string& where) const {
  const ChatTemplate& form = template_of(options_.chat_template);
  const Json& messages = record[member];
  if (!messages.is_array())
    throw UserError(str(where, ": \"", member, "\" is ", value_text(messages),
                        ", and should be a list of {\"role\": ..., \"content\": ...}"));
  Record out{.parts = {}, .framed = true};
  note_unread(record, {member, "system"}, "", out.unread);
  std::string between = form.begin;  // template text between messages
  bool first = true;
  const bool system = record.contains("system") && !is_empty(record["system"]);
  if (system) between += message_of(form, "system", text_in(record, "system", where));
  for (const auto& message : messages) {
    const bool shared = message.is_object() && message.contains("from") && message.contains("value");
    const char *who = shared ? "from" : "role", *said = shared ? "value" : "content";
    if (!message.is_object() || !message.contains(who) || !message[who].is_string() ||
        !message.contains(said))
      throw UserError(str(where, ": a message is ", value_text(message),
                          ", and should be {\"role\": ..., \"content\": ...}"));
    const std::string role = role_of(message[who].get<std::string>());
    if (system && std::exchange(first, false) && role == "system")
      throw UserError(where + ": the record has \"system\" and a first message of the role system; keep one");
    std::string content = content_of(message, said, where);
    check_calls(message, where);
    note_unread(message, {who, said, "tool_calls", "function_call"}, " of messages", out.unread);
    const bool learnt = learnt_of(message, "a message", where) && role == "assistant";
    if (role != "assistant") check_asked(message, where);
    if (!learnt) {
      between += message_of(form, role, content);
      continue;
    }
    if (form.trimmed) content = trim(content);
    between += str(form.open, role, form.role);
    out.parts.push_back({std::move(between), false});
    out.parts.push_back({content + form.close, true});
    between = form.rest;
  }
  if (!between.empty()) out.parts.push_back({std::move(between), false});
  return out;
}

}  // namespace lockstep::launcher::data
