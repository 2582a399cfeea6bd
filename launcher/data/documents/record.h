// A record of JSON lines: what of it is text, and what of the text is to be learnt.
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
  bool framed = false;  // a document that has a beginning and an end of its own, as a conversation; else they
                        // are added
  std::vector<std::string> unread = {};  // members that no one reads, in quotes, with whose they are
};

// The names of a record's members, "text, id"; a value in a message; and the text in a member. UserError
// naming `where` for another value.
std::string members_of(const Json& record);
std::string value_text(const Json& value);
std::string text_in(const Json& record, const std::string& member, const std::string& where);
// Of members that are not in `read`, say nothing of a weight and are no ids or sources the names, in quotes,
// and `what` behind them.
void note_unread(const Json& of, const std::vector<std::string>& read, const char* what,
                 std::vector<std::string>& unread);
// Whether a record or a message, which `what` says, is learnt by what it says of that: "weight" or
// "loss_weight" of 0 or 1, "train", "training" or "loss" of true or false. UserError for another value, and
// for a mask.
bool learnt_of(const Json& of, const std::string& what, const std::string& where);

// How a template opens an answer to a first message, and what ends the answer.
struct ChatOpening {
  std::string text;                   // up to where the answer begins
  std::string end;                    // behind the answer
  std::vector<std::string> specials;  // tokens that the template is made of
};
// `system`: "" for none. UserError naming data.template for one that is not known.
ChatOpening chat_opening(const std::string& chat_template, const std::string& system,
                         const std::string& user);
const std::vector<std::string>& chat_templates();  // names
// The same as a template of Jinja, which other tools read: tokenizers of Hugging Face keep one.
std::string chat_jinja(const std::string& chat_template);
// The token that stands in front of each message.
std::string chat_message_token(const std::string& chat_template);

// Reads records of text, of prompt and completion, and of chat messages, by the members that they have; also
// conversations of ShareGPT ("conversations" of from and value) and instructions of Alpaca and Dolly
// (instruction, input or context, output or response), which are a user's message and its answer. "system"
// beside them is a first message. What a record, or a message of the assistant, says is not learnt
// (learnt_of) is read and not learnt.
class RecordReader {
 public:
  // UserError naming data.template for one that is not known.
  explicit RecordReader(const DataOptions& options);
  // UserError naming `where` (file and line) for a record without such members, or with others in them.
  Record read(const Json& record, const std::string& where) const;
  // The tokens that the chat template is made of.
  std::vector<std::string> special_tokens() const;
  std::string text() const;  // all that decides what is read, for the fingerprint

 private:
  Record of_members(const Json& record, const std::string& where) const;
  Record instruction(const Json& record, const std::string& where) const;
  Record conversation(const Json& record, const std::string& member, const std::string& where) const;
  DataOptions options_;
};

}  // namespace lockstep::launcher::data
