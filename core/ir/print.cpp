// Prints a graph.
#include "core/ir/print.h"

#include "core/base/error.h"

namespace lockstep {

namespace {
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string attr_text(const Attr& attr) {
  if (auto* v = std::get_if<bool>(&attr)) return *v ? "true" : "false";
  if (auto* v = std::get_if<int64_t>(&attr)) return str(*v);
  if (auto* v = std::get_if<double>(&attr)) {
    std::string out = number_text(*v);
    return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
  }
  if (auto* v = std::get_if<std::string>(&attr)) return quoted(*v);
  if (auto* v = std::get_if<std::vector<int64_t>>(&attr)) return str(*v);
  return std::string(name(std::get<DType>(attr)));
}

// Appends text in place, which is fast: every rank prints every graph of a step to hash it.
template <class... Parts>
void put(std::string& out, const Parts&... parts) {
  ((out += parts), ...);
}

std::string value_name(ValueId id) { return "%" + std::to_string(static_cast<int>(id.index())); }
std::string value_text(const Graph& graph, ValueId id) {
  const Value& value = graph[id];
  std::string out = value_name(id);
  put(out, " ", shape_text(value.dtype, value.shape));
  if (!value.layout.splits.empty()) put(out, " ", text(value.layout, graph.mesh));
  return out;
}

void print_into(const Graph& graph, const PrintOptions& options, const std::string& indent,
                std::string& out) {
  put(out, "graph ", text(graph.mesh), " {\n");
  for (const auto& input : graph.inputs)
    put(out, indent, "  in ", name(input.kind), " ", quoted(input.name), " ", value_text(graph, input.value),
        "\n");
  for (const Node& node : graph.nodes) {
    put(out, indent, "  ");
    for (size_t i = 0; i < node.outputs.size(); ++i)
      put(out, i ? ", " : "", value_text(graph, node.outputs[i]));
    put(out, node.outputs.empty() ? "" : " ", "= ", node.op.name(), "(");
    for (size_t i = 0; i < node.inputs.size(); ++i) put(out, i ? ", " : "", value_name(node.inputs[i]));
    put(out, ")");
    if (!node.attrs.items().empty()) put(out, " ", text(node.attrs));
    if (node.body) {
      put(out, " body ");
      print_into(*node.body, options, indent + "  ", out);
    }
    if (options.source_lines && (!node.at.file.empty() || !node.at.scope.empty()))
      put(out, " @ ", quoted(str(node.at.file, ":", node.at.line)), " ", quoted(node.at.scope));
    put(out, "\n");
  }
  for (const auto& output : graph.outputs)
    put(out, indent, "  out ", name(output.kind), " ", quoted(output.name), " ", value_name(output.value),
        "\n");
  put(out, indent, "}");
}
}  // namespace

std::string text(const Attrs& attrs) {
  std::string out;
  for (const auto& [key, value] : attrs.items())
    put(out, out.empty() ? "{" : ", ", key, "=", attr_text(value));
  return out.empty() ? out : out + "}";
}

std::string print(const Graph& graph, const PrintOptions& options) {
  std::string out;
  print_into(graph, options, "", out);
  return out + "\n";
}

}  // namespace lockstep
