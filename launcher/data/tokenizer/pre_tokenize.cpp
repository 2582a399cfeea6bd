// Pre-tokenizers: cut a text at matches and combine the pieces as the file says.
#include "launcher/data/tokenizer/pre_tokenize.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/data/tokenizer/bpe.h"
#include "launcher/data/tokenizer/tokenizer_file.h"
#include "launcher/data/tokenizer/unicode_class.h"

namespace lockstep::launcher::data {

namespace {
// GPT-2's word pattern, at which ByteLevel cuts.
constexpr const char* kByteLevelWords =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

// Cuts that the package implements in Rust, not with Oniguruma: characters of a class, \w+|[^\w\s]+.
Pattern one_of(const CharacterClass& of, const std::string& who) {
  return Pattern::of_pcre(str('[', of.spelled(), ']'), who);
}
Pattern rust_words(const std::string& who) {
  const std::string word = rust_word().spelled();
  return Pattern::of_pcre(str('[', word, "]+|[^", word, white_space().spelled(), "]+"), who);
}

std::string text_with(std::string_view all, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t at; (at = all.find(from, done)) != std::string_view::npos; done = at + from.size()) {
    out += all.substr(done, at - done);
    out += to;
  }
  out += all.substr(done);
  return out;
}

// Words between white space, each preceded by the mark.
void mark_words(MarkedText& text, const std::string& mark, const Pattern& space) {
  std::string out;
  std::vector<MarkedText::Mark> moved = text.marks;
  size_t next = 0;  // the first part whose new position is still unknown
  auto place = [&](size_t until, size_t at) {
    for (; next < moved.size() && text.marks[next].at < until; ++next) moved[next].at = at;
  };
  auto word = [&](size_t begin, size_t end) {
    if (begin == end) return;
    const std::string_view one = std::string_view(text.text).substr(begin, end - begin);
    if (!one.starts_with(mark)) out += mark;
    for (; next < moved.size() && text.marks[next].at < end; ++next)
      moved[next].at = text.marks[next].at <= begin ? out.size() : out.size() + text.marks[next].at - begin;
    out += one;
  };
  size_t done = 0;
  for (auto found = space.find(text.text, 0); found; found = space.find(text.text, done)) {
    word(done, found->first);
    done = found->second;
    place(done, out.size());
  }
  word(done, text.text.size());
  place(text.text.size() + 1, out.size());
  text.text = std::move(out), text.marks = std::move(moved);
  text.marks[0].at = 0;
}

// Metaspace's prepend scheme: always, first or never.
std::string scheme_in(const nlohmann::json& described, const std::string& who) {
  const bool added = flag_in(described, "add_prefix_space", true, who);
  if (!described.contains("prepend_scheme")) return added ? "always" : "never";
  const std::string scheme = word_in(described, "prepend_scheme", who);
  if (scheme != "always" && scheme != "first" && scheme != "never")
    throw UserError(
        str(who, ": prepend_scheme is ", shortened(printable(scheme), 40), ", none of always, first, never"));
  return scheme;
}
}  // namespace

PreTokenizer::PreTokenizer(const nlohmann::json& described, const std::string& who) {
  if (!described.is_null()) add(described, who + ": pre_tokenizer");
}

void PreTokenizer::add_cut(const Pattern& pattern, Behaviour behaviour, bool invert) {
  cuts_.push_back({pattern, behaviour, invert});
}

void PreTokenizer::edit(const std::string& type, const std::string& who,
                        std::function<void(MarkedText&)> change) {
  if (!cuts_.empty() || byte_level_)
    throw UserError(str(who, ": ", type,
                        " adds text after a pre-tokenizer that cuts; it is read in the first place alone: "
                        "tokenize elsewhere, and use data.kind tokens"));
  edits_.push_back(std::move(change));
}

// WhitespaceSplit and then Metaspace.
void PreTokenizer::add_marked_words(const nlohmann::json& metaspace, const std::string& who) {
  const std::string mark = character_in(metaspace, "replacement", who);
  edit("Metaspace", who,
       [mark, space = one_of(white_space(), who)](MarkedText& text) { mark_words(text, mark, space); });
  add_cut(Pattern::literal(mark, who), Behaviour::with_next);
}

PreTokenizer::Behaviour PreTokenizer::behaviour_in(const nlohmann::json& described, const std::string& who) {
  const std::string word = word_in(described, "behavior", who);
  const std::pair<const char*, Behaviour> known[] = {{"Isolated", Behaviour::isolated},
                                                     {"Removed", Behaviour::removed},
                                                     {"MergedWithPrevious", Behaviour::with_previous},
                                                     {"MergedWithNext", Behaviour::with_next},
                                                     {"Contiguous", Behaviour::contiguous}};
  for (const auto& [name, behaviour] : known)
    if (word == name) return behaviour;
  throw UserError(str(who, ": the behavior ", word,
                      " is none of Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous"));
}

void PreTokenizer::add_sequence(const nlohmann::json& list, const std::string& who) {
  auto is = [&](size_t i, const char* name) { return word_in(list[i], "type", who) == name; };
  // Metaspace then adds the mark to each word, regardless of the text before it.
  const bool words = list.size() == 2 && is(0, "WhitespaceSplit") && is(1, "Metaspace") &&
                     scheme_in(list[1], who) == "always" && flag_in(list[1], "split", true, who);
  if (words) return add_marked_words(list[1], who);
  for (const auto& each : list) add(each, who);
}

void PreTokenizer::add_metaspace(const nlohmann::json& described, const std::string& who) {
  const std::string mark = character_in(described, "replacement", who), scheme = scheme_in(described, who);
  edit("Metaspace", who, [mark, scheme](MarkedText& text) {
    text.each_part([&](std::string_view part, std::string& out) { out += text_with(part, " ", mark); });
    if (scheme == "never" || (scheme == "first" && !text.first)) return;
    if (!text.text.empty() && !text.text.starts_with(mark)) text.prepend(mark);
  });
  if (flag_in(described, "split", true, who)) add_cut(Pattern::literal(mark, who), Behaviour::with_next);
}

void PreTokenizer::add(const nlohmann::json& described, const std::string& who) {
  const std::string type = word_in(described, "type", who);
  if (type == "Sequence") {
    add_sequence(list_in(described, "pretokenizers", who), who);
  } else if (type == "ByteLevel") {
    if (byte_level_) throw UserError(who + " has ByteLevel twice, which spells bytes of bytes; take one out");
    if (flag_in(described, "add_prefix_space", true, who))
      edit("ByteLevel with add_prefix_space", who, [](MarkedText& text) {
        if (!text.text.starts_with(' ')) text.prepend(" ");
      });
    if (flag_in(described, "use_regex", true, who)) add_cut({kByteLevelWords, who}, Behaviour::isolated);
    byte_level_ = true, cuts_of_bytes_ = cuts_.size();
  } else if (type == "Split") {
    add_cut(pattern_in(described, "pattern", who), behaviour_in(described, who),
            flag_in(described, "invert", false, who));
  } else if (type == "Digits") {
    add_cut(one_of(rust_number(), who), flag_in(described, "individual_digits", false, who)
                                            ? Behaviour::isolated
                                            : Behaviour::contiguous);
  } else if (type == "Punctuation") {
    add_cut(one_of(rust_punctuation(), who),
            described.contains("behavior") ? behaviour_in(described, who) : Behaviour::isolated);
  } else if (type == "Whitespace") {
    add_cut(rust_words(who), Behaviour::removed, true);
  } else if (type == "WhitespaceSplit") {
    add_cut(one_of(white_space(), who), Behaviour::removed);
  } else if (type == "BertPreTokenizer") {
    add_cut(one_of(white_space(), who), Behaviour::removed);
    add_cut(one_of(rust_punctuation(), who), Behaviour::isolated);
  } else if (type == "Metaspace") {
    add_metaspace(described, who);
  } else {
    throw UserError(
        str(who, " is ", type,
            ", which is not read; ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, "
            "WhitespaceSplit, BertPreTokenizer and Sequence of them are: tokenize elsewhere, and use "
            "data.kind tokens"));
  }
}

void PreTokenizer::apply(MarkedText& text, const Piece& piece) const {
  for (const auto& change : edits_) change(text);
  cut(0, text.text, 0, piece);
}

void PreTokenizer::cut(size_t i, std::string_view text, size_t at, const Piece& to) const {
  if (text.empty()) return;
  if (i == cuts_.size()) return to(text, at);
  if (!byte_level_ || i != cuts_of_bytes_) return cut_by(i, text, at, to);
  // From here on each byte is one letter.
  const std::string letters = spelled_bytes(text);
  size_t counted = 0, bytes = 0;
  auto count = [&](size_t until) {
    for (; counted < until; ++counted) bytes += (static_cast<unsigned char>(letters[counted]) & 0xc0) != 0x80;
    return bytes;
  };
  cut_by(i, letters, 0, [&](std::string_view piece, size_t place) {
    const size_t begin = count(place), end = count(place + piece.size());
    to(text.substr(begin, end - begin), at + begin);
  });
}

void PreTokenizer::cut_by(size_t i, std::string_view text, size_t at, const Piece& to) const {
  const auto& [pattern, behaviour, invert] = cuts_[i];
  // The pending piece, and whether it is, or ends with, a match.
  size_t begin = 0, end = 0;
  bool held = false, matched = false;
  auto hand_on = [&] {
    if (end > begin) cut(i + 1, text.substr(begin, end - begin), at + begin, to);
  };
  auto take = [&](size_t from, size_t until, bool match) {
    const bool join = held && (behaviour == Behaviour::contiguous      ? match == matched
                               : behaviour == Behaviour::with_previous ? match && !matched
                               : behaviour == Behaviour::with_next     ? matched && !match
                                                                       : false);
    if (!join) {
      hand_on();
      begin = from;
    }
    end = until, matched = match, held = true;
    if (match && behaviour == Behaviour::removed) begin = end;
  };
  size_t done = 0;
  Pattern::Matches matches(pattern, text);
  for (auto found = matches.next(); found; found = matches.next()) {
    if (found->first > done) take(done, found->first, invert);
    take(found->first, found->second, !invert);
    done = found->second;
  }
  if (done < text.size()) take(done, text.size(), invert);
  hand_on();
}

}  // namespace lockstep::launcher::data
