// Reads files of JSON lines as documents of tokens.
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

// Kind of record: tokens, some of them learnt, or a text and its class (labels.h).
enum class RecordKind { learnt, labelled };

class DocumentMaker {
 public:
  // UserError for a tokenizer with ids beyond model.vocab, and, once a conversation is read, for one without
  // the tokens of the chat template.
  explicit DocumentMaker(const DataOptions& options, RecordKind kind = RecordKind::learnt);

  // The tokens of a record. kCounts marks learnt tokens: those with a byte of a part that counts and, if
  // there is such a part, the end token.
  std::vector<uint32_t> document(const Record& record, const std::string& where) const;
  // The label and tokens of a text or a pair, with the tokenizer's frame and, if it names a token, data.eos.
  // UserError for a pair when the tokenizer's file has no frame for two texts.
  std::vector<uint32_t> labelled(const LabelledText& text, const std::string& where) const;
  // The documents of a file, from the cache if possible. UserError naming file and line for a line that is
  // not a JSON object, text that is not UTF-8, and records that RecordReader refuses.
  TokenStore store(const FileBytes& file, const std::string& path);
  const std::string& fingerprint() const { return fingerprint_; }  // of everything that determines the tokens
  int32_t padding() const { return end_.value_or(0); }
  std::optional<int32_t> end() const { return end_; }
  // The tokenizer's token before each message of a conversation; none for bytes.
  std::optional<int32_t> message_token() const;
  std::optional<int32_t> pad() const;  // the tokenizer's token that fills rows
  // The frame of a labelled text or pair: token counts before, between and after, and their segments.
  struct Around {
    int64_t before = 0, between = 0, behind = 0;
    int32_t segments[5] = {0, 0, 0, 0, 0};  // of: before, first text, between, second text, after
  };
  Around around(bool pair) const;

  // Lines about unread members: for each name, the number of records with it and the first of them.
  std::vector<std::string> unread() const;

  int64_t made = 0;  // bytes read now, not taken from the cache
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
  std::string cache_, fingerprint_, no_chat_;  // the last one: why conversations cannot be read
  std::map<std::string, Unread> unread_;       // by name
};

}  // namespace lockstep::launcher::data
