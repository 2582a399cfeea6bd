// Files of JSON lines as documents of tokens.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/data/documents/labels.h"
#include "launcher/data/documents/record.h"
#include "launcher/data/options.h"
#include "launcher/data/token_store.h"
#include "launcher/data/tokenizer/tokenizer.h"

namespace lockstep::launcher::data {

// What a record is: tokens of which some are learnt, or a text and its class (labels.h).
enum class RecordKind { learnt, labelled };

class DocumentMaker {
 public:
  // UserError for a tokenizer with ids beyond model.vocab, and, once a conversation is read, for one without
  // the tokens of the chat template.
  explicit DocumentMaker(const DataOptions& options, RecordKind kind = RecordKind::learnt);

  // The tokens of a record: kCounts marks those that are learnt, which hold a byte of a part that counts,
  // and, where a part does, the end.
  std::vector<uint32_t> document(const Record& record, const std::string& where) const;
  // A text's label and its tokens, or a pair's; what the tokenizer puts around them is with them, and
  // data.eos where it names a token. UserError for a pair where the tokenizer's file has no frame of two
  // texts.
  std::vector<uint32_t> labelled(const LabelledText& text, const std::string& where) const;
  // The documents of a file, from the cache where it has them. UserError naming file and line for a line that
  // is no JSON object, text that is not UTF-8, and records that RecordReader refuses.
  TokenStore store(const FileBytes& file, const std::string& path);
  const std::string& fingerprint() const { return fingerprint_; }  // of all that decides the tokens
  int32_t padding() const { return end_.value_or(0); }
  std::optional<int32_t> end() const { return end_; }
  // The tokenizer's token in front of each message of a conversation; none for bytes.
  std::optional<int32_t> message_token() const;
  std::optional<int32_t> pad() const;  // the tokenizer's token that fills rows
  // What is put around a labelled text, or around and between two: how many tokens, of which segment.
  struct Around {
    int64_t before = 0, between = 0, behind = 0;
    int32_t segments[5] = {0, 0, 0, 0, 0};  // of before, the first text, between, the second, behind
  };
  Around around(bool pair) const;

  // Of members that are not read: a line for each name, how many records have it, and the first of them.
  std::vector<std::string> unread() const;

  int64_t made = 0;  // bytes that were read now, rather than before
  double seconds = 0;

 private:
  struct Unread {
    int64_t records = 0, line = 0;  // the first
    std::string path;
  };
  struct Line {
    std::vector<uint32_t> tokens;
    std::vector<std::string> unread;
  };

  void write(const FileBytes& file, const std::string& path, TokenWriter& to) const;
  Line line(const std::string& text, const std::string& path, int64_t number) const;

  DataOptions options_;
  RecordKind kind_;
  RecordReader reader_;
  std::optional<Tokenizer> tokenizer_;  // none: bytes
  std::optional<int32_t> end_;
  std::string cache_, fingerprint_, no_chat_;  // why conversations cannot be read
  std::map<std::string, Unread> unread_;       // by name
};

}  // namespace lockstep::launcher::data
