// Decoder steps, each over the list of tokens.
#include "launcher/data/tokenizer/decode.h"

#include <utf8proc.h>

#include <charconv>

#include "core/base/error.h"
#include "launcher/data/tokenizer/bpe.h"
#include "launcher/data/tokenizer/tokenizer_file.h"

namespace lockstep::launcher::data {

namespace {
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Size of the character at `at`, or of its valid prefix if it is cut off (then `whole` is false).
size_t character(std::string_view text, size_t at, bool& whole) {
  utf8proc_int32_t point = 0;
  const auto used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                     static_cast<utf8proc_ssize_t>(text.size() - at), &point);
  whole = used > 0;
  if (whole) return static_cast<size_t>(used);
  // Each maximal prefix of a character becomes one U+FFFD: Unicode 15, section 3.9, table 3-8.
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  const unsigned first = byte(at), second = byte(at + 1);
  const bool goes_on = (second & 0xc0) == 0x80 && first >= 0xc2 && first <= 0xf4 &&
                       !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second > 0x9f) &&
                       !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second > 0x8f);
  if (!goes_on || first < 0xe0) return 1;
  return first >= 0xf0 && (byte(at + 2) & 0xc0) == 0x80 ? 3 : 2;
}

std::string as_utf8(std::string_view bytes) {
  std::string out;
  bool whole = false;
  for (size_t at = 0, n; at < bytes.size(); at += n) {
    n = character(bytes, at, whole);
    out += whole ? bytes.substr(at, n) : kReplacement;
  }
  return out;
}

void byte_level(std::vector<std::string>& tokens) {
  std::string all, bytes;
  for (const auto& token : tokens) all += bytes_of_spelling(token, bytes) ? bytes : token;
  tokens.assign(1, as_utf8(all));
}

// Of <0x..>; -1 for another token.
int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc{} && end == token.data() + 5 && byte >= 0 ? byte : -1;
}

// Runs of <0x..> become characters, or one U+FFFD per byte if they are not valid UTF-8.
void byte_fallback(std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string run;
  auto end_run = [&] {
    if (run.empty()) return;
    if (is_utf8(run))
      out.push_back(run);
    else
      for (size_t i = 0; i < run.size(); ++i) out.emplace_back(kReplacement);
    run.clear();
  };
  for (auto& token : tokens) {
    if (const int byte = byte_of(token); byte >= 0) {
      run += static_cast<char>(byte);
      continue;
    }
    end_run();
    out.push_back(std::move(token));
  }
  end_run();
  tokens = std::move(out);
}

std::string replaced(const std::string& text, const Pattern& pattern, const std::string& by,
                     const std::string& who) {
  const size_t most = 34 * text.size() + (size_t{1} << 20);
  std::string out;
  size_t done = 0;
  Pattern::Matches matches(pattern, text);
  for (auto found = matches.next(); found; found = matches.next()) {
    out += text.substr(done, found->first - done) + by;
    done = found->second;
    if (out.size() > most)
      throw UserError(str(who, " makes ", out.size(), " bytes or more of a token of ", text.size(),
                          "; use a tokenizer that does not multiply its text"));
  }
  return out + text.substr(done);
}
// A token with the prefix continues a word, others begin one. Cleanup removes the space before English
// punctuation and contractions.
void words(std::vector<std::string>& tokens, const std::string& prefix, bool clean) {
  static constexpr std::pair<std::string_view, std::string_view> kJoined[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    if (i > 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
    if (!clean) continue;
    for (const auto& [from, to] : kJoined)
      for (size_t at = 0; (at = token.find(from, at)) != std::string::npos; at += to.size())
        token.replace(at, from.size(), to);
  }
}
}  // namespace

Decoder::Decoder(const nlohmann::json& described, const std::string& who) {
  none_ = described.is_null();
  if (!none_) add(described, who + ": decoder");
}

void Decoder::add(const nlohmann::json& described, const std::string& who) {
  const std::string type = word_in(described, "type", who);
  if (type == "Sequence") {
    for (const auto& each : list_in(described, "decoders", who)) add(each, who);
  } else if (type == "ByteLevel") {
    steps_.emplace_back(byte_level);
  } else if (type == "ByteFallback") {
    steps_.emplace_back(byte_fallback);
  } else if (type == "Fuse") {
    steps_.emplace_back([](std::vector<std::string>& tokens) { tokens.assign(1, join(tokens, "")); });
  } else if (type == "Replace") {
    const Pattern pattern = pattern_in(described, "pattern", who);
    steps_.emplace_back(
        [pattern, by = word_in(described, "content", who), who](std::vector<std::string>& tokens) {
          for (auto& token : tokens) token = replaced(token, pattern, by, who);
        });
  } else if (type == "Strip") {
    const std::string what = character_in(described, "content", who);
    const int64_t start = number_in(described, "start", who), stop = number_in(described, "stop", who);
    steps_.emplace_back([what, start, stop](std::vector<std::string>& tokens) {
      for (auto& token : tokens) {
        for (int64_t i = 0; i < start && token.starts_with(what); ++i) token.erase(0, what.size());
        for (int64_t i = 0; i < stop && token.ends_with(what); ++i) token.resize(token.size() - what.size());
      }
    });
  } else if (type == "WordPiece") {
    steps_.emplace_back([prefix = word_in(described, "prefix", who),
                         clean = flag_in(described, "cleanup", true, who)](std::vector<std::string>& tokens) {
      words(tokens, prefix, clean);
    });
  } else if (type == "Metaspace") {
    const std::string mark = character_in(described, "replacement", who);
    const bool added = described.contains("prepend_scheme")
                           ? word_in(described, "prepend_scheme", who) != "never"
                           : flag_in(described, "add_prefix_space", true, who);
    steps_.emplace_back([mark, added, who](std::vector<std::string>& tokens) {
      const Pattern pattern = Pattern::literal(mark, who);
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (i == 0 && added && tokens[0].starts_with(mark)) tokens[0].erase(0, mark.size());
        tokens[i] = replaced(tokens[i], pattern, " ", who);
      }
    });
  } else {
    throw UserError(str(who, " is ", type,
                        ", which is not read; ByteLevel, Metaspace, ByteFallback, Fuse, Replace, Strip, "
                        "WordPiece and Sequence of them are"));
  }
}

std::string Decoder::apply(std::vector<std::string> tokens) const {
  if (none_) return join(tokens, " ");
  for (const auto& step : steps_) step(tokens);
  return join(tokens, "");
}

}  // namespace lockstep::launcher::data
