// One pass over the text for bounds, comments and places, then nlohmann's parser.
#include "core/base/json_text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/text.h"

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

// What nlohmann says after its place: "invalid literal", "unexpected ']'; expected string literal".
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

  // The text with comments and superfluous commas blanked, place for place; or what is wrong, in `problem`.
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
    const std::string digits(text_.substr(at_, std::min<size_t>(end - at_, 400)));
    if (end - at_ > 400)
      problem_ = at_place(text_, at_, str("a number of ", end - at_, " characters; at most 400 are read"));
    else if (std::isinf(std::strtod(digits.c_str(), nullptr)))
      problem_ = at_place(text_, at_, str(digits, " is beyond the largest number, 1.8e308"));
    at_ = end;
    value();
  }
  void value() { comma_ = kNone, after_value_ = true; }
  void comment() {
    const bool line = text_[at_ + 1] == '/';
    size_t end = line ? text_.find('\n', at_) : text_.find("*/", at_ + 2);
    if (end == std::string_view::npos && !line)
      problem_ = at_place(text_, at_, "this comment has no end; write */ behind it");
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

JsonText read_json(std::string_view text, Comments comments) {
  JsonText out;
  auto fail = [&](std::string words, bool beyond) {
    out.errors.push_back(std::move(words));
    out.value = Json::object();
    out.readable = false;
    out.beyond = beyond;
    return out;
  };
  if (static_cast<int64_t>(text.size()) > kJsonBytes)
    return fail(str("a text of ", bytes_text(static_cast<double>(text.size())), "; at most ",
                    bytes_text(kJsonBytes), " are read"),
                true);
  std::string problem;
  const std::string plain = Scan(text, comments).run(problem);
  if (!problem.empty()) return fail(problem, true);
  std::vector<std::set<std::string>> seen;
  std::vector<size_t> members;
  auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) seen.emplace_back(), members.push_back(0);
    if (event == Json::parse_event_t::object_end) seen.pop_back(), members.pop_back();
    if (event != Json::parse_event_t::key) return true;
    if (++members.back() > kJsonMembers) {
      ++out.members_left_out;
      return false;
    }
    if (const auto& key = parsed.get_ref<const std::string&>(); !seen.back().insert(key).second)
      out.errors.push_back(str("key \"", shortened(key, 80), "\" is given twice in one section; keep one"));
    return true;
  };
  try {
    out.value = Json::parse(plain, watch);
  } catch (const Json::parse_error& error) {
    out.errors.clear();
    return fail(at_place(text, error.byte ? error.byte - 1 : 0, "this is not JSON: " + reason(error.what())),
                false);
  } catch (const Json::exception& error) { return fail(error.what(), false); }
  return out;
}

ReadText read_text(const std::string& path) {
  std::error_code none;
  const auto found = std::filesystem::status(path, none);
  if (!std::filesystem::exists(found)) return {"", "it is not there"};
  if (std::filesystem::is_directory(found)) return {"", "it is a folder"};
  if (std::filesystem::is_fifo(found) && path.rfind("/dev/", 0) != 0)
    return {"", "it is a FIFO"};  // a shell's pipe is /dev/fd/N
  const bool plain = std::filesystem::is_regular_file(found);
  const auto large = [](int64_t bytes) {
    return str("it has ", bytes_text(static_cast<double>(bytes)), ", and at most ", bytes_text(kJsonBytes),
               " are read");
  };
  if (const auto bytes = plain ? std::filesystem::file_size(path, none) : 0;
      plain && !none && static_cast<int64_t>(bytes) > kJsonBytes)
    return {"", large(static_cast<int64_t>(bytes))};
  std::ifstream file(path, std::ios::binary);
  if (!file) return {"", "it cannot be opened"};
  std::string text;
  for (std::string part(1 << 16, 0); file && static_cast<int64_t>(text.size()) <= kJsonBytes;) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    text.append(part, 0, file.gcount());
  }
  if (file.bad()) return {"", "it cannot be read"};
  if (static_cast<int64_t>(text.size()) > kJsonBytes) return {"", large(static_cast<int64_t>(text.size()))};
  return {std::move(text), ""};
}

Json bounded_json(std::string_view text) {
  JsonText read = read_json(text, Comments::refused);
  return read.readable && read.members_left_out == 0 ? std::move(read.value) : Json(Json::value_t::discarded);
}

}  // namespace lockstep
