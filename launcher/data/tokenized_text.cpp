// Tokenizes whole files and caches them as stores.
#include "launcher/data/tokenized_text.h"

#include <chrono>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/reading/one_line.h"
#include "launcher/data/token_store.h"
#include "launcher/data/tokenizer/end_token.h"

namespace lockstep::launcher::data {

namespace {
constexpr int64_t kMostBytes = int64_t{2} << 30;
}

TextTokenizer::TextTokenizer(const DataOptions& options)
    : tokenizer_(tokenizer_file_of(options.tokenizer)),
      end_(end_token(tokenizer_, options.eos)),
      cache_(options.cache),
      fingerprint_(hash_hex(str(tokenizer_.fingerprint(), " ", end_ ? *end_ : -1))) {
  if (tokenizer_.ids() > options.vocab)
    throw UserError(str("model.vocab is ", options.vocab, ", and ", tokenizer_.path(),
                        " (data.tokenizer) has ", tokenizer_.ids(), " ids; set model.vocab to ",
                        tokenizer_.ids(), " or more, as to the next multiple of 64, ",
                        (tokenizer_.ids() + 63) / 64 * 64));
  logs::info(str("data: ", tokenizer_.path(), " has ", tokenizer_.ids(), " ids; a document ends with ",
                 end_ ? printable(tokenizer_.token(*end_)) : "no token of its own", " (data.eos)"));
}

std::vector<uint32_t> TextTokenizer::document(const std::string& text, const std::string& where) const {
  if (const auto at = not_utf8_at(text))
    throw UserError(str(where, " is not UTF-8 at byte ", *at,
                        ", and a tokenizer reads UTF-8; convert it (iconv -t utf-8), or train on its bytes "
                        "with data.tokenizer bytes"));
  std::vector<uint32_t> out(tokenizer_.before().begin(), tokenizer_.before().end());
  for (int32_t id : tokenizer_.encode(text)) out.push_back(static_cast<uint32_t>(id));
  out.insert(out.end(), tokenizer_.behind().begin(), tokenizer_.behind().end());
  if (end_ && (out.empty() || out.back() != static_cast<uint32_t>(*end_)))
    out.push_back(static_cast<uint32_t>(*end_));
  return out;
}

Source TextTokenizer::tokenized(const Source& text) {
  if (text.bytes.size() > kMostBytes)
    throw UserError(
        str("data.paths: ", one_line(text.path), " has ", bytes_text(static_cast<double>(text.bytes.size())),
            ", and a text file is tokenized whole, up to ", bytes_text(kMostBytes),
            "; cut it into smaller files, or write its documents as JSON lines (data.kind jsonl)"));
  const auto began = std::chrono::steady_clock::now();
  TokenStore store = token_store(
      text.bytes, text.path, str("text ", fingerprint_), cache_,
      [&](TokenWriter& writer) {
        std::string all(text.bytes.size(), '\0');
        text.bytes.read(0, all.data(), text.bytes.size());
        writer.document(document(all, "data.paths: " + one_line(text.path)));
      },
      made);
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return {.path = text.path,
          .bytes = std::move(store.bytes),
          .width = 4,
          .header = TokenStore::kHeader,
          .tokens = store.tokens};
}

void TextTokenizer::tell() const {
  if (made && seconds > 1)
    logs::info(str("data: ", bytes_text(static_cast<double>(made)), " of text tokenized in ",
                   static_cast<int64_t>(seconds + 0.5), " s",
                   cache_.empty() ? "" : str("; kept in ", cache_, " until a file changes")));
}

}  // namespace lockstep::launcher::data
