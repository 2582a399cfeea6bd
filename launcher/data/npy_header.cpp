// Parses the header's Python literal, a token at a time.
#include "launcher/data/npy_header.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/reading/one_line.h"
#include "core/reading/whole_number.h"

namespace lockstep::launcher::data {

namespace {
constexpr size_t kMostDims = 64, kMostDigits = 18;  // NumPy's limit; digits of a number below 2^63

class Literal {
 public:
  Literal(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(str("data.paths: ", one_line(path_), " ", what));
  }
  [[noreturn]] void no_numbers() const {
    refuse(str("has no plain numbers; its header says ", shortened(one_line(text_), 120)));
  }
  [[noreturn]] void damaged() const {
    refuse(str("has a header that numpy does not write: ", shortened(one_line(text_), 120)));
  }

  // Whether `one` comes next; consumes it if so.
  bool passes(char one) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != one) return false;
    ++at_;
    return true;
  }
  void must(char one) {
    if (!passes(one)) damaged();
  }
  std::string quoted() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') no_numbers();  // a list of fields
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) damaged();
    const std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }
  bool truth() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair{"True", true}, {"False", false}})
      if (text_.substr(at_).starts_with(word)) return at_ += std::string_view(word).size(), value;
    damaged();
  }
  Shape shape() {
    Shape out;
    must('(');
    while (!passes(')')) {
      const size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
      const std::string_view digits = text_.substr(at_, end - at_);
      if (digits.empty()) refuse("has a header without a shape");
      const auto size = digits.size() <= kMostDigits ? whole_number(digits) : std::nullopt;
      if (!size) refuse(str("has a dim of ", shortened(std::string(digits), 40), " elements"));
      if (out.size() == kMostDims) refuse(str("has a shape of more than ", kMostDims, " dims"));
      out.push_back(*size);
      at_ = end;
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // a long number of Python 2
      if (!passes(',')) {
        must(')');
        break;
      }
    }
    return out;
  }
  void end() {
    skip_spaces();
    if (at_ != text_.size()) damaged();
  }

 private:
  void skip_spaces() { at_ = std::min(text_.find_first_not_of(" \n", at_), text_.size()); }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
};

void take_type(const std::string& descr, const Literal& literal, NpyHeader& out) {
  constexpr std::array kRead = {"f4", "f8", "f2", "u1", "i1", "u2", "i2", "u4", "i4", "i8", "b1"};
  constexpr std::string_view kOrders = "<>|=";
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (descr.size() < 3 || descr.size() > 4 || kOrders.find(descr[0]) == std::string_view::npos ||
      !is_letter(descr[1]) || !std::all_of(descr.begin() + 2, descr.end(), is_digit))
    literal.no_numbers();
  out.type = descr.substr(1);
  if (std::find(kRead.begin(), kRead.end(), out.type) == kRead.end())
    literal.refuse(str("has elements of type ", out.type, "; f2, f4, f8, integers and b1 are read"));
  out.width = out.type[1] - '0';
  if (descr[0] == '>' && out.width > 1)
    literal.refuse("has its bytes in big-endian order; save it in this machine's");
}
}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& path) {
  NpyHeader out;
  Literal literal(text, path);
  bool type = false, order = false, shape = false;
  literal.must('{');
  while (!literal.passes('}')) {
    const std::string key = literal.quoted();
    literal.must(':');
    if (key == "descr" && !type) {
      take_type(literal.quoted(), literal, out);
      type = true;
    } else if (key == "fortran_order" && !order) {
      if (literal.truth()) literal.refuse("lies in Fortran's order; save numpy.ascontiguousarray of it");
      order = true;
    } else if (key == "shape" && !shape) {
      out.shape = literal.shape();
      shape = true;
    } else {
      literal.damaged();
    }
    if (!literal.passes(',')) {
      literal.must('}');
      break;
    }
  }
  literal.end();
  if (!type) literal.no_numbers();
  if (!shape) literal.refuse("has a header without a shape");
  if (!order) literal.damaged();
  return out;
}

}  // namespace lockstep::launcher::data
