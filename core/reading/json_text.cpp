// One pass over the text for bounds, comments and positions, then nlohmann's parser with a builder of values.
#include "core/reading/json_text.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/reading/json_builder.h"
#include "core/reading/lfs_pointer.h"
#include "core/reading/one_line.h"

namespace lockstep {

namespace {

// "line 3, column 5: what" and the line with a mark below it, of at most 100 characters around the place.
std::string at_place(std::string_view text, size_t place, const std::string& what) {
  constexpr size_t kBefore = 60, kAfter = 40;
  place = std::min(place, text.size());
  size_t start = place ? text.rfind('\n', place - 1) : std::string_view::npos;
  start = start == std::string_view::npos ? 0 : start + 1;
  const auto lines = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(start), '\n');
  const size_t end = std::min(text.find('\n', place), text.size()), column = place - start;
  const size_t from = column > kBefore ? place - kBefore : start;
  std::string shown, mark;
  for (size_t i = from; i < std::min(end, place + kAfter); ++i) {
    const std::string one = text[i] == '\t' ? " " : printable(text.substr(i, 1));
    shown += static_cast<unsigned char>(text[i]) < 0x80 ? one : text.substr(i, 1);
    if (i < place)
      mark += (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80
                  ? ""
                  : std::string(static_cast<unsigned char>(text[i]) < 0x80 ? one.size() : 1, ' ');
  }
  return str("line ", lines, ", column ", column + 1, ": ", what, "\n    ", printable(shown), "\n    ", mark,
             "^");
}

// nlohmann's message without its position: "invalid literal", "unexpected ']'; expected string literal".
std::string reason(const std::string& words) {
  std::string out = words;
  if (size_t dash = out.find(" - "); dash != std::string::npos) out = out.substr(dash + 3);
  if (size_t last = out.find("; last read: "); last != std::string::npos) {
    const size_t expected = out.find("; expected", last);
    out = out.substr(0, last) + (expected == std::string::npos ? "" : out.substr(expected));
  }
  return out;
}

class Scan {
 public:
  Scan(std::string_view text, Comments comments)
      : text_(text), out_(text), comments_(comments == Comments::taken) {}

  // The text with comments and superfluous commas replaced by blanks, so that positions stay; errors go to
  // `problem`.
  std::string run(std::string& problem) {
    while (at_ < text_.size() && problem_.empty()) step();
    problem = problem_;
    return std::move(out_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '"') return string();
    if (comments_ && c == '/' && at_ + 1 < text_.size() && (text_[at_ + 1] == '/' || text_[at_ + 1] == '*'))
      return comment();
    if (c == '-' || (c >= '0' && c <= '9')) return number();
    if (c == '[' || c == '{') {
      if (++depth_ > kJsonDepth)
        problem_ = at_place(text_, at_, str("nested deeper than ", kJsonDepth, " lists and sections"));
    } else if (c == ']' || c == '}') {
      --depth_;
      if (comments_ && comma_ != kNone) out_[comma_] = ' ';
    }
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
      comma_ = c == ',' && after_value_ ? at_ : kNone;
      after_value_ = c != ',' && c != '[' && c != '{' && c != ':';
    }
    ++at_;
  }
  void string() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    ++at_;
    value();
  }
  void number() {
    const size_t end = std::min(text_.find_first_not_of("0123456789+-.eE", at_), text_.size());
    if (end - at_ > 400)
      problem_ = at_place(text_, at_, str("a number of ", end - at_, " characters; at most 400 are read"));
    at_ = end;
    value();
  }
  void value() { comma_ = kNone, after_value_ = true; }
  void comment() {
    const bool line = text_[at_ + 1] == '/';
    size_t end = line ? text_.find('\n', at_) : text_.find("*/", at_ + 2);
    if (end == std::string_view::npos && !line)
      problem_ = at_place(text_, at_, "this comment has no end; write */ after it");
    end = end == std::string_view::npos ? text_.size() : line ? end : end + 2;
    for (; at_ < end; ++at_)
      if (text_[at_] != '\n') out_[at_] = ' ';
  }

  static constexpr size_t kNone = std::string_view::npos;
  std::string_view text_;
  std::string out_, problem_;
  bool comments_, after_value_ = false;
  int depth_ = 0;
  size_t at_ = 0, comma_ = kNone;  // comma_: behind a value, with nothing behind it yet
};

}  // namespace

namespace {
template <class Value>
JsonTextOf<Value> read(std::string_view text, Comments comments, const JsonBounds& bounds) {
  JsonTextOf<Value> out;
  auto fail = [&](std::string words, bool beyond) {
    out.errors.push_back(std::move(words));
    out.readable = false;
    out.beyond = beyond;
    return out;
  };
  if (static_cast<int64_t>(text.size()) > bounds.bytes)
    return fail(str("a text of ", bytes_text(static_cast<double>(text.size())), "; at most ",
                    bytes_text(static_cast<double>(bounds.bytes)), " are read"),
                true);
  if (is_lfs_pointer(text)) return fail(at_place(text, 0, str("this ", kLfsPointer)), false);
  std::string problem;
  const std::string plain = Scan(text, comments).run(problem);
  if (!problem.empty()) return fail(problem, true);
  JsonBuilder<Value> builder(bounds.members);
  if (!Value::sax_parse(plain, &builder)) {
    if (builder.underflow)
      return fail(
          at_place(text, text.find(builder.token),
                   builder.token + " is below the smallest number, 4.9e-324; write 0 if that is meant"),
          true);
    if (builder.overflow)
      return fail(at_place(text, builder.wrong_at - std::min(builder.wrong_at, builder.token.size()),
                           builder.token + " is beyond the largest number, 1.8e308"),
                  true);
    return fail(at_place(text, builder.wrong_at ? builder.wrong_at - 1 : 0,
                         "this is not JSON: " + reason(builder.wrong)),
                false);
  }
  out.value = std::move(builder.value);
  out.members_left_out = builder.members_left_out;
  for (const std::string& key : builder.doubled)
    out.errors.push_back(
        str("key \"", shortened(one_line(key), 80), "\" is given twice in one section; keep one"));
  return out;
}
}  // namespace

JsonText read_json(std::string_view text, Comments comments, const JsonBounds& bounds) {
  return read<Json>(text, comments, bounds);
}
SortedJsonText read_sorted_json(std::string_view text, const JsonBounds& bounds) {
  return read<nlohmann::json>(text, Comments::refused, bounds);
}

Json bounded_json(std::string_view text, const JsonBounds& bounds) {
  JsonText read = read_json(text, Comments::refused, bounds);
  return read.readable && read.members_left_out == 0 ? std::move(read.value) : Json(Json::value_t::discarded);
}

}  // namespace lockstep
