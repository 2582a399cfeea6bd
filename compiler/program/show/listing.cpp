// Writes and reads a listing: one line per region, call and instruction.
#include "compiler/program/show/listing.h"

#include <algorithm>
#include <charconv>

#include "compiler/program/show/listing_fields.h"
#include "core/base/error.h"
#include "core/ir/parse.h"
#include "core/ir/print.h"

namespace lockstep::compiler {

namespace {
using namespace listing_detail;

class Writer {
 public:
  template <class T>
  Writer& operator()(std::string_view label, const T& value) {
    if (!label.empty()) word(label);
    put(value);
    return *this;
  }
  void word(std::string_view text) {
    if (!out_.empty() && out_.back() != '\n' && out_.back() != '[' && out_.back() != '{') out_ += ' ';
    out_ += text;
  }
  void end_line() { out_ += '\n'; }
  void lines(const std::string& text) { out_ += text; }
  std::string text() { return std::move(out_); }

 private:
  template <std::integral T>
  void put(T value) {
    word(std::to_string(value));
  }
  void put(double value) { word(number_text(value)); }
  void put(const std::string& text) {
    std::string quoted = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') quoted += '\\';
      if (c == '\n')
        quoted += "\\n";
      else
        quoted += c;
    }
    word(quoted + '"');
  }
  void put(DType dtype) { word(name(dtype)); }
  void put(NodeId node) { word(str(node)); }
  void put(Region::Kind kind) { word(name(kind)); }
  void put(StartCollective::Verb verb) { word(name(verb)); }
  void put(BlockCall::Kind kind) { word(kCallWords[static_cast<size_t>(kind)]); }
  void put(const Span& span) {
    word(span.there() ? str(span.region, "+", span.offset, ":", span.bytes) : "-");
  }
  void put(const BlockPlace& slot) {
    const std::string base = slot.base == BlockPlace::own_arena      ? "own"
                             : slot.base == BlockPlace::shared_arena ? "shared"
                                                                     : std::to_string(slot.base);
    word(str(base, "+", slot.offset));
  }
  template <class T>
  void put(const std::vector<T>& items) {
    word("[");
    for (const T& item : items) put(item);
    out_ += ']';
  }
  template <class T>
  void put(const T& fields_of)
    requires requires { fields(*this, fields_of); }
  {
    word("{");
    fields(*this, fields_of);
    out_ += '}';
  }

  std::string out_;
};

void write(Writer& out, const Instr& instr) {
  out.word(kInstrWords[instr.what.index()]);
  std::visit([&](const auto& what) { fields(out, what); }, instr.what);
  out.word("|");
  out("micro_batch", instr.micro_batch)("stage", instr.stage);
  if (!instr.at.file.empty() || !instr.at.scope.empty())
    out("at", instr.at.file)("", instr.at.line)("", instr.at.scope);
  out.end_line();
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  template <class T>
  Reader& operator()(std::string_view label, T& value) {
    if (!label.empty()) expect(label);
    get(value);
    return *this;
  }
  // A word: up to white space or a bracket.
  std::string_view word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && std::string_view(" \n[]{}\"").find(text_[at_]) == std::string_view::npos)
      ++at_;
    if (at_ == begin && at_ < text_.size() && text_[at_] != '\n') ++at_;  // a bracket alone is a word
    return text_.substr(begin, at_ - begin);
  }
  void expect(std::string_view what) {
    if (const std::string_view found = word(); found != what)
      fail(str("\"", printable(found), "\" is where \"", what, "\" is expected"));
  }
  bool accept(std::string_view what) {
    const size_t before = at_;
    if (word() == what) return true;
    at_ = before;
    return false;
  }
  void end_line() {
    skip();
    if (at_ == text_.size()) return;
    if (text_[at_] != '\n') fail(str("text after the line's end: \"", printable(word()), "\""));
    ++at_, ++line_;
  }
  // Lines up to a line that is only "}".
  std::string_view braced_lines() {
    const size_t begin = at_;
    const size_t end = text_.find("\n}\n", at_);
    if (end == std::string_view::npos) fail("a graph without an end");
    at_ = end + 3;
    const std::string_view found = text_.substr(begin, at_ - begin);
    line_ += static_cast<int>(std::count(found.begin(), found.end(), '\n'));
    return found;
  }
  bool at_end() {
    skip();
    return at_ == text_.size();
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(str("the listing of a program, line ", line_, ": ", what));
  }
  int line() const { return line_; }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  template <class T>
  T number(std::string_view text) {
    T out{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
      fail(str("\"", printable(text), "\" is not a number of this kind"));
    return out;
  }
  // For text like "12+256": returns the number before `mark`, and removes both.
  std::string_view cut(std::string_view& text, char mark) {
    const size_t at = text.find(mark);
    if (at == std::string_view::npos) fail(str("\"", printable(text), "\" has no '", mark, "'"));
    const std::string_view head = text.substr(0, at);
    text.remove_prefix(at + 1);
    return head;
  }
  template <class T, size_t n>
  void one_of(const std::array<T, n>& all, T& value) {
    const std::string_view found = word();
    for (T each : all)
      if (name(each) == found) return void(value = each);
    fail(str("\"", printable(found), "\" is not known here"));
  }

  template <std::integral T>
  void get(T& value) {
    value = number<T>(word());
  }
  void get(bool& value) { value = number<int>(word()) != 0; }
  void get(double& value) { value = number<double>(word()); }
  void get(std::string& value) {
    skip();
    if (at_ == text_.size() || text_[at_] != '"') fail("a quoted text is expected");
    value.clear();
    for (++at_; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
      const bool escaped = text_[at_] == '\\' && at_ + 1 < text_.size();
      if (escaped) ++at_;
      value += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
    }
    if (at_ == text_.size() || text_[at_] != '"') fail("a quoted text has no end");
    ++at_;
  }
  void get(DType& value) { value = parse_dtype(std::string(word())); }
  void get(NodeId& value) { value = NodeId(number<int32_t>(word())); }
  void get(Region::Kind& value) { one_of(kRegionKinds, value); }
  void get(StartCollective::Verb& value) { one_of(kVerbs, value); }
  void get(BlockCall::Kind& value) {
    const std::string_view found = word();
    const auto at = std::find(kCallWords.begin(), kCallWords.end(), found);
    if (at == kCallWords.end()) fail(str("\"", printable(found), "\" is no kind of call"));
    value = static_cast<BlockCall::Kind>(at - kCallWords.begin());
  }
  void get(Span& value) {
    std::string_view text = word();
    if (text == "-") return void(value = {});
    value.region = number<int>(cut(text, '+'));
    value.offset = number<int64_t>(cut(text, ':'));
    value.bytes = number<int64_t>(text);
  }
  void get(BlockPlace& value) {
    std::string_view text = word();
    const std::string_view base = cut(text, '+');
    value.base = base == "own"      ? static_cast<int>(BlockPlace::own_arena)
                 : base == "shared" ? static_cast<int>(BlockPlace::shared_arena)
                                    : number<int>(base);
    value.offset = number<int64_t>(text);
  }
  template <class T>
  void get(std::vector<T>& items) {
    expect("[");
    items.clear();
    while (!accept("]")) {
      if (skip(); at_ == text_.size() || text_[at_] == '\n') fail("a list has no end");
      get(items.emplace_back());
    }
  }
  template <class T>
  void get(T& fields_of)
    requires requires { fields(*this, fields_of); }
  {
    expect("{");
    fields(*this, fields_of);
    expect("}");
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

template <size_t... index>
void choose(Instr& instr, size_t wanted, std::index_sequence<index...>) {
  ((index == wanted ? void(instr.what.emplace<index>()) : void()), ...);
}

Instr read_instr(Reader& in) {
  const std::string_view found = in.word();
  const auto at = std::find(kInstrWords.begin(), kInstrWords.end(), found);
  if (at == kInstrWords.end()) in.fail(str("no instruction is named \"", printable(found), "\""));
  Instr out;
  choose(out, at - kInstrWords.begin(), std::make_index_sequence<kInstrWords.size()>());
  std::visit([&](auto& what) { fields(in, what); }, out.what);
  in.expect("|");
  in("micro_batch", out.micro_batch)("stage", out.stage);
  if (in.accept("at")) in("", out.at.file)("", out.at.line)("", out.at.scope);
  in.end_line();
  return out;
}
ProgramBlock read_block(Reader& in) {
  ProgramBlock out;
  fields(in, out);
  in.end_line();
  while (in.accept("call")) {
    fields(in, out.calls.emplace_back());
    in.end_line();
  }
  in.expect("graph");
  in.end_line();
  const int line = in.line();
  try {
    out.graph = parse_graph(in.braced_lines());
  } catch (const UserError& e) { in.fail(str("the graph that begins at line ", line, ": ", e.what())); }
  return out;
}
}  // namespace

std::string listing(const StepProgram& program) {
  Writer out;
  out.word("program");
  fields(out, program);
  out.end_line();
  for (const Region& region : program.regions) {
    out.word("region");
    fields(out, region);
    out.end_line();
  }
  for (const ProgramBlock& block : program.blocks) {
    out.word("block");
    fields(out, block);
    out.end_line();
    for (const BlockCall& call : block.calls) {
      out.word("call");
      fields(out, call);
      out.end_line();
    }
    out.word("graph");
    out.end_line();
    out.lines(print(block.graph));
  }
  for (const auto& [title, list] : {std::pair{"refresh", &program.refresh}, {"step", &program.instrs}}) {
    out.word(title);
    out.end_line();
    for (const Instr& instr : *list) write(out, instr);
  }
  out.word("end");
  out.end_line();
  return out.text();
}

StepProgram parse_program(std::string_view text) {
  Reader in(text);
  StepProgram out;
  in.expect("program");
  fields(in, out);
  in.end_line();
  while (in.accept("region")) {
    fields(in, out.regions.emplace_back());
    in.end_line();
  }
  while (in.accept("block")) out.blocks.push_back(read_block(in));
  in.expect("refresh");
  in.end_line();
  while (!in.accept("step")) out.refresh.push_back(read_instr(in));
  in.end_line();
  while (!in.accept("end")) out.instrs.push_back(read_instr(in));
  in.end_line();
  if (!in.at_end()) in.fail("text after the program's end");
  return out;
}

}  // namespace lockstep::compiler
