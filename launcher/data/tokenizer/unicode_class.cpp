// Builds character sets from tables, and writes them in PCRE2's syntax.
#include "launcher/data/tokenizer/unicode_class.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "core/base/error.h"
#include "launcher/data/tokenizer/unicode_table.h"

namespace lockstep::launcher::data {

namespace {
constexpr uint32_t kLast = 0x10ffff;

// Sorts and merges ranges.
CodePoints tidy(CodePoints ranges) {
  std::sort(ranges.begin(), ranges.end());
  CodePoints out;
  for (const auto& [begin, end] : ranges)
    if (!out.empty() && begin <= out.back().second + 1)
      out.back().second = std::max(out.back().second, end);
    else
      out.emplace_back(begin, end);
  return out;
}
CodePoints joined(std::initializer_list<const CodePoints*> sets) {
  CodePoints out;
  for (const CodePoints* each : sets) out.insert(out.end(), each->begin(), each->end());
  return tidy(std::move(out));
}
CodePoints without(const CodePoints& from, const CodePoints& gone) {
  const CodePoints kept = complement(gone);
  CodePoints out;
  for (size_t i = 0, k = 0; i < from.size() && k < kept.size();) {
    const uint32_t begin = std::max(from[i].first, kept[k].first),
                   end = std::min(from[i].second, kept[k].second);
    if (begin <= end) out.emplace_back(begin, end);
    ++(from[i].second < kept[k].second ? i : k);
  }
  return out;
}

// Parses "345 363-36f" up to the end or a semicolon.
CodePoints ranges_in(const char*& text) {
  CodePoints out;
  for (char* end = nullptr;; text = end) {
    const auto begin = static_cast<uint32_t>(std::strtoul(text, &end, 16));
    if (end == text) break;
    uint32_t last = begin;
    if (*end == '-') last = static_cast<uint32_t>(std::strtoul(end + 1, &end, 16));
    out.emplace_back(begin, last);
    if (*end == ';') {
      text = end;
      break;
    }
  }
  return out;
}
CodePoints ranges_of(const char* text) { return ranges_in(text); }

// General categories by their two letters.
std::map<std::string, CodePoints> categories() {
  std::map<std::string, CodePoints> out;
  uint32_t at = 0;
  auto add = [&](const std::string& name, uint32_t count) {
    out[name].emplace_back(at, at + count - 1);
    at += count;
  };
  for (const char* text = kCategoryRuns; *text;) {
    char* name = nullptr;
    const auto count = static_cast<uint32_t>(std::strtoul(text, &name, 10));
    add(std::string(name, 2), name == text ? 1 : count);
    text = name + 2;
  }
  if (at <= kLast) add("Cn", kLast + 1 - at);
  return out;
}

// The characters in a PCRE2 class, among all assigned ones.
CodePoints in_pcre(const std::string& near) {
  static std::mutex mutex;
  static std::map<std::string, CodePoints> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(near); found != known.end()) return found->second;
  std::string all;
  auto add = [&](uint32_t begin, uint32_t end) {
    utf8proc_uint8_t bytes[4];
    for (uint32_t c = begin; c < end; ++c)
      all.append(reinterpret_cast<char*>(bytes),
                 static_cast<size_t>(utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes)));
  };
  add(0, 0xd800), add(0xe000, 0x40000), add(0xe0000, 0xe1000);
  CodePoints out;
  const std::string expression = "[" + near + "]+";
  int error = 0;
  PCRE2_SIZE where = 0;
  const std::unique_ptr<pcre2_code, void (*)(pcre2_code*)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(), PCRE2_UTF | PCRE2_UCP,
                    &error, &where, nullptr),
      &pcre2_code_free);
  if (code) {  // else this PCRE2 lacks the property
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
        pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(all.data());
    for (PCRE2_SIZE from = 0;
         pcre2_match(code.get(), subject, all.size(), from, PCRE2_NO_UTF_CHECK, data.get(), nullptr) >= 0;) {
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
      utf8proc_int32_t point = 0;
      for (PCRE2_SIZE at = ends[0]; at < ends[1];) {
        at += static_cast<PCRE2_SIZE>(
            utf8proc_iterate(subject + at, static_cast<utf8proc_ssize_t>(ends[1] - at), &point));
        const auto c = static_cast<uint32_t>(point);
        if (!out.empty() && out.back().second + 1 == c)
          out.back().second = c;
        else
          out.emplace_back(c, c);
      }
      from = ends[1];
    }
  }
  return known[near] = out;
}

std::string ranges_text(const CodePoints& of) {
  std::string out;
  char range[40];
  for (const auto& [begin, end] : of) {
    std::snprintf(range, sizeof range, begin == end ? "\\x{%x}" : "\\x{%x}-\\x{%x}", begin, end);
    out += range;
  }
  return out;
}

// Names as Oniguruma compares them.
std::string plain(std::string_view name) {
  std::string out;
  for (char c : name)
    if (c != ' ' && c != '-' && c != '_') out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

struct Tables {
  std::map<std::string, CharacterClass> properties, brackets;
  CharacterClass word, word_alone, rust_word, rust_number, rust_punctuation;
  CharacterClass mark, nonspacing, control, plain_form;  // of the package's normalizers

  Tables() {
    const auto of = categories();
    std::map<std::string, CodePoints> sets = of;
    for (const auto& [name, points] : of) {
      CodePoints& all = sets[name.substr(0, 1)];
      all.insert(all.end(), points.begin(), points.end());
    }
    for (const char* one : {"C", "L", "M", "N", "P", "S", "Z"}) sets[one] = tidy(std::move(sets[one]));
    sets["LC"] = joined({&sets["Lu"], &sets["Ll"], &sets["Lt"]});
    auto set = [&](const char* name) -> const CodePoints& { return sets[name]; };
    for (const auto& [name, points] : sets) {
      const bool far = name[0] == 'C' && name != "Cc" && name != "Cf";
      properties[plain(name)] = {points, far || name == "LC" ? "" : str("\\p{", name, "}"),
                                 name.size() == 1 || name == "LC" || (name[0] != 'L' && name[0] != 'M')};
    }
    add_scripts();
    add_words(set("Lu"), set("Ll"), set("L"), set("Nl"));
    add_brackets();
    const CodePoints alphabetic = properties["alphabetic"].points;
    word = {joined({&alphabetic, &set("M"), &set("Nd"), &set("Pc")}), "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}"};
    brackets["word"] = word;
    const CodePoints small = ranges_of("b2-b3 b9 bc-be"), joiners = ranges_of("200c-200d"),
                     later_digits = ranges_of("11de0-11de9 16ff4-16ff6"),
                     ascii = ranges_of("24 2b 3c-3e 5e 60 7c 7e"), odd = ranges_of("166d 111c9");
    word_alone = {joined({&word.points, &small}), word.near};
    properties["word"] = word_alone;
    rust_word = {joined({&word.points, &joiners}), word.near};
    rust_number = {joined({&set("N"), &later_digits}), "\\p{N}"};
    rust_punctuation = {without(joined({&set("P"), &ascii, &odd}), ranges_of(kPunctuationOfLaterUnicode)),
                        ""};
    add_normalizers(set("M"), set("Mn"), joined({&set("Cc"), &set("Cf"), &set("Co")}));
    add_long_names();
  }

 private:
  void add_scripts() {
    for (const char* text = kScripts; *text;) {
      while (*text == ' ' || *text == ';') ++text;
      const char* end = text;
      while (*end && *end != ' ') ++end;
      if (end == text) break;
      const std::string name(text, end);
      text = end;
      properties[plain(name)] = {ranges_in(text), str("\\p{sc:", name, "}")};
    }
  }
  void add_words(const CodePoints& upper, const CodePoints& lower, const CodePoints& letters,
                 const CodePoints& numerals) {
    const CodePoints also_alphabetic = ranges_of(kAlphabeticBesideLetters),
                     also_lower = ranges_of(kLowercaseBesideLetters),
                     also_upper = ranges_of(kUppercaseBesideLetters);
    properties["alphabetic"] = {joined({&letters, &numerals, &also_alphabetic}), "\\p{L}\\p{Nl}"};
    properties["uppercase"] = {joined({&upper, &also_upper}), "\\p{Lu}", false};
    properties["lowercase"] = {joined({&lower, &also_lower}), "\\p{Ll}", false};
    properties["whitespace"] = {ranges_of("9-d 20 85 a0 1680 2000-200a 2028-2029 202f 205f 3000"),
                                "\\p{White_Space}"};
    properties["any"] = {{{0, kLast}}, ""};
    properties["ascii"] = {{{0, 0x7f}}, "", false};
    properties["assigned"] = {complement(properties["cn"].points), ""};
    properties["joincontrol"] = {ranges_of("200c-200d"), ""};
  }
  void add_brackets() {
    const CharacterClass space = properties["whitespace"], digit = properties["nd"],
                         alpha = properties["alphabetic"];
    const CodePoints none = joined({&space.points, &properties["cc"].points, &properties["cn"].points,
                                    &properties["cs"].points}),
                     graph = complement(none);
    brackets["alpha"] = alpha;
    brackets["digit"] = digit;
    brackets["alnum"] = {joined({&alpha.points, &digit.points}), "\\p{L}\\p{Nl}\\p{Nd}"};
    brackets["upper"] = properties["uppercase"];
    brackets["lower"] = properties["lowercase"];
    brackets["space"] = space;
    brackets["cntrl"] = properties["cc"];
    brackets["graph"] = {graph, ""};
    brackets["print"] = {joined({&graph, &properties["zs"].points}), ""};
    brackets["xdigit"] = {ranges_of("30-39 41-46 61-66"), ""};
    brackets["ascii"] = properties["ascii"];
    const CodePoints tab = ranges_of("9");
    brackets["blank"] = {joined({&tab, &properties["zs"].points}), "\\p{Zs}"};
    for (const auto& [name, made] : brackets) properties.emplace(name, made);
    brackets["punct"] = {joined({&properties["p"].points, &properties["s"].points}), "\\p{P}\\p{S}"};
    properties["posixpunct"] = brackets["punct"];
  }
  void add_normalizers(const CodePoints& marks, const CodePoints& nonspacing_marks,
                       const CodePoints& controls) {
    const CodePoints more_marks = ranges_of("1cf2-1cf3"), more_nonspacing = ranges_of("1734 1171e"),
                     unknown = ranges_of("fffd");
    mark = {without(joined({&marks, &more_marks}), ranges_of(kMarksOfLaterUnicode)), ""};
    nonspacing = {
        without(joined({&nonspacing_marks, &more_nonspacing}), ranges_of(kNonspacingOfLaterUnicode)), ""};
    control = {without(joined({&controls, &unknown}), ranges_of("9-a d 890-891 8e2 110cd 13430-1343f")), ""};
    plain_form = {ranges_of("32ff a7f2-a7f4 ab69 10781-10785 10787-107b0 107b2-107ba 11938 1e030-1e06d 1f16c "
                            "1fbf0-1fbf9"),
                  ""};
  }
  void add_long_names() {
    static constexpr std::pair<const char*, const char*> kLong[] = {
        {"other", "c"},
        {"control", "cc"},
        {"format", "cf"},
        {"unassigned", "cn"},
        {"privateuse", "co"},
        {"letter", "l"},
        {"casedletter", "lc"},
        {"lowercaseletter", "ll"},
        {"modifierletter", "lm"},
        {"otherletter", "lo"},
        {"titlecaseletter", "lt"},
        {"uppercaseletter", "lu"},
        {"mark", "m"},
        {"combiningmark", "m"},
        {"spacingmark", "mc"},
        {"enclosingmark", "me"},
        {"nonspacingmark", "mn"},
        {"number", "n"},
        {"decimalnumber", "nd"},
        {"letternumber", "nl"},
        {"othernumber", "no"},
        {"punctuation", "p"},
        {"punct", "p"},
        {"connectorpunctuation", "pc"},
        {"dashpunctuation", "pd"},
        {"closepunctuation", "pe"},
        {"finalpunctuation", "pf"},
        {"initialpunctuation", "pi"},
        {"otherpunctuation", "po"},
        {"openpunctuation", "ps"},
        {"symbol", "s"},
        {"currencysymbol", "sc"},
        {"modifiersymbol", "sk"},
        {"mathsymbol", "sm"},
        {"othersymbol", "so"},
        {"separator", "z"},
        {"lineseparator", "zl"},
        {"paragraphseparator", "zp"},
        {"spaceseparator", "zs"},
    };
    for (const auto& [name, of] : kLong) properties[name] = properties.at(of);
    properties.erase("cs");  // surrogates do not occur in UTF-8
  }
};
const Tables& tables() {
  static const Tables all;
  return all;
}
const CharacterClass* found_in(const std::map<std::string, CharacterClass>& all, const std::string& name) {
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}
}  // namespace

CodePoints complement(const CodePoints& of) {
  CodePoints out;
  uint32_t next = 0;
  for (const auto& [begin, end] : of) {
    if (begin > next) out.emplace_back(next, begin - 1);
    next = end + 1;
  }
  if (next <= kLast) out.emplace_back(next, kLast);
  return out;
}

uint32_t character_at(std::string_view text, size_t at, size_t& bytes) {
  utf8proc_int32_t point = 0;
  const auto used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                     static_cast<utf8proc_ssize_t>(text.size() - at), &point);
  LS_CHECK(used > 0, "text is not UTF-8");
  bytes = static_cast<size_t>(used);
  return static_cast<uint32_t>(point);
}

bool CharacterClass::has(uint32_t point) const {
  const auto behind = std::upper_bound(
      points.begin(), points.end(), point,
      [](uint32_t c, const std::pair<uint32_t, uint32_t>& range) { return c < range.first; });
  return behind != points.begin() && point <= std::prev(behind)->second;
}

std::string CharacterClass::spelled(bool negated) const {
  if (negated) return ranges_text(without(complement(points), {{0xd800, 0xdfff}}));
  const CodePoints known = near.empty() ? CodePoints{} : in_pcre(near);
  if (known.empty() || !without(known, points).empty())
    return ranges_text(without(points, {{0xd800, 0xdfff}}));
  return near + ranges_text(without(points, known));
}

const CharacterClass* property(std::string_view name) { return found_in(tables().properties, plain(name)); }
const CharacterClass* bracket_class(std::string_view name) {
  return found_in(tables().brackets, std::string(name));
}
const CharacterClass& word_in_brackets() { return tables().word; }
const CharacterClass& word_alone() { return tables().word_alone; }
const CharacterClass& white_space() { return tables().properties.at("whitespace"); }
const CharacterClass& decimal_digit() { return tables().properties.at("nd"); }
const CharacterClass& rust_word() { return tables().rust_word; }
const CharacterClass& rust_number() { return tables().rust_number; }
const CharacterClass& rust_punctuation() { return tables().rust_punctuation; }
const CharacterClass& package_mark() { return tables().mark; }
const CharacterClass& package_nonspacing() { return tables().nonspacing; }
const CharacterClass& package_control() { return tables().control; }
const CharacterClass& package_plain() { return tables().plain_form; }

}  // namespace lockstep::launcher::data
