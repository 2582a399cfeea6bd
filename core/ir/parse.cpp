// A recursive-descent parser of the graph's text form. Value ids may be any numbers; they are renumbered in
// order of appearance.
#include "core/ir/parse.h"

#include <cctype>
#include <charconv>
#include <map>

#include "core/base/error.h"

namespace lockstep {

namespace {
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph whole() {
    Graph graph = parse();
    skip();
    if (at_ != text_.size()) fail("text after the graph");
    return graph;
  }

 private:
  // A graph under construction, and the values that its text has named so far.
  struct Scope {
    Graph graph;
    std::map<int64_t, ValueId> ids;
  };
  // "%3 f32[2,4]{dp_shard=shard(0)}"
  struct Typed {
    int64_t id;
    DType dtype;
    Shape shape;
    Layout layout;
  };

  Graph parse() {
    expect("graph");
    Scope scope;
    scope.graph.mesh = mesh();
    expect("{");
    while (!accept("}")) {
      if (accept("in "))
        input(scope);
      else if (accept("out "))
        output(scope);
      else
        node(scope);
    }
    return std::move(scope.graph);
  }

  Typed typed(const Scope& scope) {
    expect("%");
    Typed out;
    out.id = integer();
    if (scope.ids.count(out.id)) fail(str("%", out.id, " is made twice"));
    out.dtype = parse_dtype(word());
    out.shape = list();
    if (peek("{")) out.layout = layout(scope.graph.mesh);
    return out;
  }
  ValueId use(const Scope& scope) {
    expect("%");
    int64_t id = integer();
    auto found = scope.ids.find(id);
    if (found == scope.ids.end()) fail(str("%", id, " is read before it is made"));
    return found->second;
  }

  void input(Scope& scope) {
    std::string kind = word();
    InputKind input_kind =
        one_of({InputKind::state, InputKind::batch, InputKind::scalar, InputKind::value}, kind);
    std::string label = quoted();
    Typed t = typed(scope);
    scope.ids[t.id] = scope.graph.add_input(input_kind, label, t.dtype, t.shape);
    scope.graph[scope.ids[t.id]].layout = t.layout;
  }
  void output(Scope& scope) {
    std::string kind = word();
    OutputKind output_kind = one_of({OutputKind::state, OutputKind::metric, OutputKind::value}, kind);
    std::string label = quoted();
    scope.graph.add_output(output_kind, label, use(scope));
  }

  void node(Scope& scope) {
    std::vector<Typed> outputs;
    while (peek("%")) {
      outputs.push_back(typed(scope));
      accept(",");
    }
    expect("=");
    OpId op = intern(op_name());
    expect("(");
    std::vector<ValueId> inputs;
    while (!accept(")")) {
      inputs.push_back(use(scope));
      accept(",");
    }
    Attrs attrs = attributes();
    std::shared_ptr<const Graph> body;
    if (accept("body")) body = std::make_shared<Graph>(parse());
    SourceLine at = source_line();
    std::vector<std::pair<DType, Shape>> types;
    for (const auto& t : outputs) types.emplace_back(t.dtype, t.shape);
    auto made = scope.graph.append(op, inputs, attrs, types, at);
    scope.graph.nodes.back().body = body;
    for (size_t i = 0; i < made.size(); ++i) {
      scope.ids[outputs[i].id] = made[i];
      scope.graph[made[i]].layout = outputs[i].layout;
    }
  }
  Attrs attributes() {
    Attrs out;
    if (!accept("{")) return out;
    while (!accept("}")) {
      std::string key = word();
      expect("=");
      out.set(key, attr());
      accept(",");
    }
    return out;
  }
  SourceLine source_line() {
    SourceLine out;
    if (!accept("@")) return out;
    std::string place = quoted();
    size_t colon = place.rfind(':');
    if (colon == std::string::npos) fail("a source line is \"file:line\"");
    out.file = place.substr(0, colon);
    out.line = std::atoi(place.c_str() + colon + 1);
    out.scope = quoted();
    return out;
  }

  template <class Kind>
  Kind one_of(std::initializer_list<Kind> kinds, std::string_view word) {
    std::string known;
    for (Kind kind : kinds) {
      if (name(kind) == word) return kind;
      known += str(" ", name(kind));
    }
    fail(str("\"", word, "\" is none of", known));
  }

  Mesh mesh() {
    expect("[");
    Mesh out{{}, {}};
    while (!accept("]")) {
      out.dim_names.push_back(word());
      expect("=");
      out.shape.push_back(integer());
      accept(",");
    }
    return out;
  }

  Layout layout(const Mesh& mesh) {
    expect("{");
    Layout out;
    while (!accept("}")) {
      int dim = mesh.dim(word());
      expect(":");
      skip();
      size_t start = at_;
      while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])))) ++at_;
      if (at_ < text_.size() && text_[at_] == '(') {
        size_t close = text_.find(')', at_);
        if (close == std::string_view::npos) fail("a placement does not end");
        at_ = close + 1;
      }
      out.splits.emplace_back(dim, parse_placement(text_.substr(start, at_ - start)));
      accept(",");
    }
    return out;
  }

  Attr attr() {
    skip();
    char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '"') return quoted();
    if (c == '[') return list();
    if (accept("true")) return true;
    if (accept("false")) return false;
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '-' || text_.substr(at_, 3) == "inf" ||
        text_.substr(at_, 3) == "nan") {
      size_t end = at_;
      while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) ||
                                    text_[end] == '.' || text_[end] == '-' || text_[end] == '+'))
        ++end;
      std::string_view digits = text_.substr(at_, end - at_);
      at_ = end;
      if (digits.find_first_of(".einn") == std::string_view::npos) {
        int64_t value = 0;
        if (auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
            error != std::errc{} || stop != text_.data() + at_)
          fail(str("\"", digits, "\" is not an integer"));
        return value;
      }
      double value = 0;
      if (auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
          error != std::errc{} || stop != text_.data() + at_)
        fail(str("\"", digits, "\" is not a number"));
      return value;
    }
    return parse_dtype(word());
  }

  std::vector<int64_t> list() {
    expect("[");
    std::vector<int64_t> out;
    while (!accept("]")) {
      out.push_back(integer());
      accept(",");
    }
    return out;
  }

  int64_t integer() {
    skip();
    int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{}) fail("expected an integer");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  std::string op_name() {  // of a registered op: mine::gelu3
    std::string out = word();
    while (text_.substr(at_, 2) == "::") at_ += 2, out += "::" + word();
    return out;
  }
  std::string word() {
    skip();
    size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.'))
      ++at_;
    if (at_ == start) fail("expected a word");
    return std::string(text_.substr(start, at_ - start));
  }
  std::string quoted() {
    expect("\"");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      out += text_[at_++];
    }
    if (at_ >= text_.size()) fail("a quoted text does not end");
    ++at_;
    return out;
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool peek(std::string_view token) {
    skip();
    return text_.substr(at_, token.size()) == token;
  }
  bool accept(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(str("expected \"", token, "\""));
  }
  [[noreturn]] void fail(const std::string& what) {
    int line = 1, column = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) text_[i] == '\n' ? (++line, column = 1) : ++column;
    throw UserError(str("graph text, line ", line, ", column ", column, ": ", what));
  }

  std::string_view text_;
  size_t at_ = 0;
};
}  // namespace

Graph parse_graph(std::string_view text) { return Parser(text).whole(); }

}  // namespace lockstep
