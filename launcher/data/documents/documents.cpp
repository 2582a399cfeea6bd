// Turns JSON lines into tokens, on all cores.
#include "launcher/data/documents/documents.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <sstream>
#include <thread>
#include <tuple>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/reading/json_text.h"
#include "core/reading/one_line.h"
#include "launcher/data/tokenizer/end_token.h"
#include "launcher/data/tokenizer/stop.h"

namespace lockstep::launcher::data {

namespace {
constexpr int64_t kBlock = int64_t{16} << 20;
constexpr size_t kLongest = kJsonBytes;  // bytes of a line

struct TextLine {
  std::string text;
  int64_t number;
};

// Reads the lines of a file, a block at a time; skips empty ones. UserError for a line that is too long,
// before the rest of it is read.
class Lines {
 public:
  Lines(const FileBytes& file, const std::string& path) : file_(file), path_(path) {}
  std::vector<TextLine> next() {
    std::vector<TextLine> out;
    while (out.empty() && (at_ < file_.size() || !rest_.empty())) {
      const int64_t bytes = std::min(kBlock, file_.size() - at_);
      check_stop();
      std::string block = std::move(rest_);
      const size_t begin = block.size();
      block.resize(begin + static_cast<size_t>(bytes));
      file_.read(at_, block.data() + begin, bytes);
      at_ += bytes;
      const bool last = at_ == file_.size();
      size_t from = 0;
      for (size_t end; from < block.size(); from = end + 1) {
        end = block.find('\n', from == 0 ? begin : from);
        if (std::min(end, block.size()) - from > kLongest) refuse_long();
        if (end == std::string::npos && !last) break;
        end = std::min(end, block.size());
        ++number_;
        if (block.find_first_not_of(" \t\r", from) < end)
          out.push_back({block.substr(from, end - from), number_});
      }
      rest_ = from < block.size() ? block.substr(from) : "";
    }
    return out;
  }

 private:
  [[noreturn]] void refuse_long() const {
    throw UserError(str("data.paths: ", one_line(path_), ", line ", number_ + 1, ": the line is longer than ",
                        bytes_text(static_cast<double>(kLongest)),
                        ", and a record is one line; cut it into several records",
                        number_ == 0 ? ", or is the file no file of JSON lines?" : ""));
  }

  const FileBytes& file_;
  const std::string& path_;
  int64_t at_ = 0, number_ = 0;
  std::string rest_;
};

void refuse_packed(const FileBytes& file, const std::string& path) {
  std::string begin(static_cast<size_t>(std::min<int64_t>(file.size(), 6)), '\0');
  file.read(0, begin.data(), static_cast<int64_t>(begin.size()));
  const std::tuple<std::string_view, const char*, const char*> all[] = {
      {"\x1f\x8b", "gzip", "gunzip"},
      {"\x28\xb5\x2f\xfd", "zstd", "unzstd"},
      {std::string_view("\xfd\x37zXZ\0", 6), "xz", "unxz"},
      {"BZh", "bzip2", "bunzip2"}};
  for (const auto& [with, name, unpack] : all)
    if (begin.starts_with(with))
      throw UserError(str("data.paths: ", one_line(path), " is packed by ", name,
                          ", and JSON lines are read as they are; unpack it (", unpack,
                          "), and name the file that comes out"));
}
}  // namespace

std::vector<std::string> DocumentMaker::unread() const {
  constexpr size_t kShown = 16;
  std::vector<std::string> out;
  for (const auto& [name, of] : unread_) {
    if (out.size() == kShown) {
      out.push_back(str("data: and ", unread_.size() - kShown, " more members are not read"));
      break;
    }
    out.push_back(str("data: ", name, " is not read, and ", of.records,
                      of.records == 1 ? " record has" : " records have", " it, the first in ",
                      one_line(of.path), ", line ", of.line,
                      "; write what a model should see into the members that are read (docs/recipes.md)"));
  }
  return out;
}

DocumentMaker::DocumentMaker(const DataOptions& options, RecordKind kind)
    : options_(options), kind_(kind), reader_(options), cache_(options.cache) {
  if (options.tokenizer != "bytes") {
    tokenizer_.emplace(tokenizer_file_of(options.tokenizer));
    if (kind == RecordKind::learnt || options.eos != "auto") end_ = end_token(*tokenizer_, options.eos);
    for (const auto& token : reader_.special_tokens())
      if (!tokenizer_->id(token) && no_chat_.empty())
        no_chat_ = str("data.template is ", options.chat_template, ", whose ", token, " is no token of ",
                       tokenizer_->path(),
                       " (data.tokenizer); choose the template that the tokenizer was made "
                       "for (chatml or llama3), or write conversations as prompt and completion");
  }
  const int64_t ids = tokenizer_ ? tokenizer_->ids() : 256;
  if (ids > options.vocab)
    throw UserError(str("model.vocab is ", options.vocab, ", and ",
                        tokenizer_ ? tokenizer_->path() + " (data.tokenizer)" : "text as bytes", " has ", ids,
                        " ids; set model.vocab to ", ids, " or more"));
  fingerprint_ = hash_hex(str(tokenizer_ ? tokenizer_->fingerprint() : "bytes", " ", end_ ? *end_ : -1, " ",
                              kind == RecordKind::labelled ? str("texts ", options.text_key, " ",
                                                                 options.pair_key, " ", options.label_key)
                                                           : reader_.text()));
}

std::optional<int32_t> DocumentMaker::pad() const {
  for (const char* name : {"<pad>", "[PAD]"})
    if (const auto id = tokenizer_ ? tokenizer_->id(name) : std::nullopt) return id;
  return {};
}

std::optional<int32_t> DocumentMaker::message_token() const {
  return tokenizer_ ? tokenizer_->id(chat_message_token(options_.chat_template)) : std::nullopt;
}

DocumentMaker::Around DocumentMaker::around(bool pair) const {
  if (!tokenizer_) return {};
  auto size = [](const std::vector<int32_t>& ids) { return static_cast<int64_t>(ids.size()); };
  const int64_t end = end_.has_value();
  if (!pair) return {size(tokenizer_->before()), 0, size(tokenizer_->behind()) + end, {}};
  if (!tokenizer_->pair_frame()) return {};
  const Tokenizer::Frame& f = *tokenizer_->pair_frame();
  return {size(f.before.ids),
          size(f.between.ids),
          size(f.behind.ids) + end,
          {f.before.segment, f.first, f.between.segment, f.second, f.behind.segment}};
}

std::vector<uint32_t> DocumentMaker::labelled(const LabelledText& text, const std::string& where) const {
  std::vector<uint32_t> tokens;
  auto put = [&](const std::vector<int32_t>& ids) { tokens.insert(tokens.end(), ids.begin(), ids.end()); };
  auto joined = [&](int64_t first) {
    std::vector<uint32_t> out = label_head(text.label, first);
    out.insert(out.end(), tokens.begin(), tokens.end());
    return out;
  };
  if (text.second && (!tokenizer_ || !tokenizer_->pair_frame()))
    throw UserError(str(where, ": the record has a second text, and ",
                        tokenizer_ ? tokenizer_->path() + " (data.tokenizer)" : "text as bytes",
                        " has nothing that stands between two; name a tokenizer.json with a post_processor "
                        "in data.tokenizer, or write both into one member"));
  if (!tokenizer_) {
    for (unsigned char byte : text.text) tokens.push_back(byte);
    return joined(-1);
  }
  auto encoded = [&](const std::string& one) {
    std::vector<int32_t> ids = tokenizer_->encode(one);
    if (ids.empty()) throw UserError("the text has no token of the tokenizer; take the record out");
    return ids;
  };
  int64_t first = -1;
  try {
    const std::vector<int32_t> ids = encoded(text.text);
    if (text.second) {
      const Tokenizer::Frame& frame = *tokenizer_->pair_frame();
      first = static_cast<int64_t>(ids.size());
      put(frame.before.ids), put(ids), put(frame.between.ids), put(encoded(*text.second));
      put(frame.behind.ids);
    } else {
      put(tokenizer_->before()), put(ids), put(tokenizer_->behind());
    }
  } catch (const UserError& error) { throw UserError(where + ": " + error.what()); }
  if (end_) put({*end_});
  return joined(first);
}

std::vector<uint32_t> DocumentMaker::document(const Record& record, const std::string& where) const {
  std::vector<uint32_t> out;
  auto put = [&](int32_t id, bool counts) {
    out.push_back(static_cast<uint32_t>(id) | (counts ? kCounts : 0));
  };
  if (!tokenizer_) {
    for (const auto& part : record.parts)
      for (unsigned char byte : part.text) put(byte, part.counts);
    return out;
  }
  if (record.framed && !no_chat_.empty()) throw UserError(where + ": a conversation; " + no_chat_);
  std::vector<std::string> texts;
  std::vector<bool> learnt;
  for (const auto& part : record.parts) texts.push_back(part.text), learnt.push_back(part.counts);
  if (!record.framed)
    for (int32_t id : tokenizer_->before()) put(id, false);
  try {
    for (const auto& token : tokenizer_->encode_parts(texts, learnt)) put(token.id, token.learnt);
  } catch (const UserError& error) { throw UserError(where + ": " + error.what()); }
  if (record.framed) return out;
  const bool ends = std::find(learnt.begin(), learnt.end(), true) != learnt.end();
  for (int32_t id : tokenizer_->behind()) put(id, ends);
  if (end_ && (out.empty() || (out.back() & ~kCounts) != static_cast<uint32_t>(*end_))) put(*end_, ends);
  return out;
}

DocumentMaker::Line DocumentMaker::line(const std::string& text, const std::string& path,
                                        int64_t number) const {
  const std::string where = str("data.paths: ", one_line(path), ", line ", number);
  const JsonText read = read_json(text, Comments::refused);
  if (!read.readable || !read.value.is_object()) {
    // Strips "line 1" from a JSON error: the text is one line, and its number is already reported.
    std::string why = read.readable                            ? ": the line is not a JSON object"
                      : read.errors.empty()                    ? ": the line is not JSON"
                      : read.errors[0].starts_with("line 1, ") ? read.errors[0].substr(6)
                                                               : ": " + read.errors[0];
    const size_t end = std::min(why.find('\n'), why.size());
    throw UserError(str(where, why.substr(0, end), "; a file of JSON lines has an object on each line",
                        number == 1 && trim(text)[0] == '['
                            ? str(". A file that is one list of records becomes one with: python3 -c 'import "
                                  "json, sys; [print(json.dumps(r)) for r in json.load(open(sys.argv[1]))]' ",
                                  path, " > ", std::filesystem::path(path).stem().string(), "-lines.jsonl")
                            : "",
                        why.substr(end)));
  }
  if (kind_ == RecordKind::labelled) {
    const LabelledText record = read_labelled(read.value, options_, where, number);
    return {labelled(record, where), record.unread};
  }
  const Record record = reader_.read(read.value, where);
  return {document(record, where), record.unread};
}

void DocumentMaker::write(const FileBytes& file, const std::string& path, TokenWriter& to) const {
  const size_t workers = std::max(1u, std::thread::hardware_concurrency());
  refuse_packed(file, path);
  Lines lines(file, path);
  std::map<std::string, Unread> unread;
  for (std::vector<TextLine> block = lines.next(); !block.empty(); block = lines.next()) {
    std::vector<Line> made(block.size());
    auto work = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i, check_stop()) made[i] = line(block[i].text, path, block[i].number);
    };
    std::vector<std::future<void>> parts;
    for (size_t w = 0; w < workers; ++w)
      parts.push_back(std::async(block.size() < 64 ? std::launch::deferred : std::launch::async, work,
                                 block.size() * w / workers, block.size() * (w + 1) / workers));
    for (auto& part : parts) part.wait();
    for (auto& part : parts) part.get();  // rethrows the error of the first refused line
    for (size_t i = 0; i < made.size(); ++i) {
      to.document(made[i].tokens);
      for (const auto& name : made[i].unread)
        if (Unread& of = unread[name]; of.records++ == 0) of.line = block[i].number;
    }
  }
  for (const auto& [name, of] : unread) to.note(str(of.records, " ", of.line, " ", name, "\n"));
}

TokenStore DocumentMaker::store(const FileBytes& file, const std::string& path) {
  const auto began = std::chrono::steady_clock::now();
  TokenStore out = token_store(
      file, path, str("jsonl ", fingerprint_), cache_, [&](TokenWriter& to) { write(file, path, to); }, made);
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::istringstream notes(out.notes());
  int64_t records = 0, first = 0;
  for (std::string name; notes >> records >> first && std::getline(notes >> std::ws, name);)
    unread_.try_emplace(name, Unread{0, first, path}).first->second.records += records;
  return out;
}

}  // namespace lockstep::launcher::data
