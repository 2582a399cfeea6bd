// A JSON Lines record: its text, and the parts of it that are learnt.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "launcher/data/options.h"

namespace lockstep::launcher::data {

struct RecordPart {
  std::string text;
  bool counts;  // its tokens are targets
};
struct Record {
  std::vector<RecordPart> parts;
  bool framed = false;  // the text has its own beginning and end, like a conversation; else they are added
  std::vector<std::string> unread = {};  // members that are not read, in quotes, with their owner
};

// The names of a record's members, "text, id"; a value in a message; and the text in a member. UserError
// naming `where` for another value.
std::string members_of(const Json& record);
std::string value_text(const Json& value);
std::string text_in(const Json& record, const std::string& member, const std::string& where);
// Collects members that are not in `read` and are not weights, ids or sources: their names in quotes,
// followed by `what`.
void note_unread(const Json& of, const std::vector<std::string>& read, const char* what,
                 std::vector<std::string>& unread);
// Whether a record or message (named by `what`) is learnt, from its "weight" or "loss_weight" of 0 or 1, or
// its "train", "training" or "loss" of true or false. UserError for another value, and for a mask.
bool learnt_of(const Json& of, const std::string& what, const std::string& where);

// How a template opens an answer to a first message, and what ends the answer.
struct ChatOpening {
  std::string text;                   // up to the start of the answer
  std::string end;                    // after the answer
  std::vector<std::string> specials;  // tokens that the template is made of
};
// `system`: "" for none. UserError naming data.template for an unknown template.
ChatOpening chat_opening(const std::string& chat_template, const std::string& system,
                         const std::string& user);
const std::vector<std::string>& chat_templates();  // names
// The same as a Jinja template for other tools: Hugging Face tokenizers store one.
std::string chat_jinja(const std::string& chat_template);
// The token before each message.
std::string chat_message_token(const std::string& chat_template);

// Reads records of text, of prompt and completion, and of chat messages, by the members that they have. Also
// reads conversations of ShareGPT ("conversations" of from and value), and instructions of Alpaca and Dolly
// (instruction, input or context, output or response), which become a user's message and its answer. A
// "system" member of these becomes the first message. A record or an assistant's message marked as not learnt
// (learnt_of) is read but gives no targets.
class RecordReader {
 public:
  // UserError naming data.template for an unknown template.
  explicit RecordReader(const DataOptions& options);
  // UserError naming `where` (file and line) for a record without such members, or with values of another
  // type.
  Record read(const Json& record, const std::string& where) const;
  // The tokens that the chat template is made of.
  std::vector<std::string> special_tokens() const;
  std::string text() const;  // everything that affects the reading, for the fingerprint

 private:
  Record of_members(const Json& record, const std::string& where) const;
  Record instruction(const Json& record, const std::string& where) const;
  Record conversation(const Json& record, const std::string& member, const std::string& where) const;
  DataOptions options_;
};

}  // namespace lockstep::launcher::data
