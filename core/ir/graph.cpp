// Graph: attributes, inputs, nodes.
#include "core/ir/graph.h"

#include "core/base/error.h"

namespace lockstep {

std::string SourceLine::text() const {
  if (file.empty()) return scope.empty() ? "?" : scope;
  std::string base =
      file.substr(file.find_last_of('/') == std::string::npos ? 0 : file.find_last_of('/') + 1);
  return scope.empty() ? str(base, ":", line) : str(base, ":", line, " (", scope, ")");
}

const Attr* Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : items_)
    if (key == name) return &value;
  return nullptr;
}
void Attrs::set(const std::string& name, Attr value) {
  for (auto& [key, old] : items_)
    if (key == name) {
      old = std::move(value);
      return;
    }
  items_.emplace_back(name, std::move(value));
}
namespace {
template <class T>
const T& get(const Attr* attr, std::string_view name, const char* type) {
  if (!attr) throw AttrError(str("needs the attribute \"", name, "\", ", type));
  const T* value = std::get_if<T>(attr);
  if (!value) throw AttrError(str("the attribute \"", name, "\" is not ", type));
  return *value;
}
}  // namespace
int64_t Attrs::integer(std::string_view name) const { return get<int64_t>(find(name), name, "an integer"); }
double Attrs::number(std::string_view name) const {
  const Attr* attr = find(name);
  if (attr && std::holds_alternative<int64_t>(*attr)) return static_cast<double>(std::get<int64_t>(*attr));
  return get<double>(attr, name, "a number");
}
bool Attrs::flag(std::string_view name) const { return has(name) && get<bool>(find(name), name, "a flag"); }
const std::string& Attrs::word(std::string_view name) const {
  return get<std::string>(find(name), name, "a word");
}
const std::vector<int64_t>& Attrs::list(std::string_view name) const {
  return get<std::vector<int64_t>>(find(name), name, "a list");
}
DType Attrs::dtype(std::string_view name) const { return get<DType>(find(name), name, "a dtype"); }

ValueId Graph::add_input(InputKind kind, const std::string& name, DType dtype, Shape shape) {
  const ValueId id(values.size());
  values.push_back({dtype, std::move(shape), {}, kNoNode, 0});
  inputs.push_back({kind, name, id});
  return id;
}
void Graph::add_output(OutputKind kind, const std::string& name, ValueId value) {
  outputs.push_back({kind, name, value});
}

std::vector<ValueId> Graph::append(OpId op, std::vector<ValueId> node_inputs, Attrs attrs,
                                   const std::vector<std::pair<DType, Shape>>& types, SourceLine at) {
  const NodeId id(nodes.size());
  std::vector<ValueId> made;
  for (size_t i = 0; i < types.size(); ++i) {
    made.emplace_back(values.size());
    values.push_back({types[i].first, types[i].second, {}, id, static_cast<int>(i)});
  }
  nodes.push_back({op, std::move(node_inputs), made, std::move(attrs), std::move(at), nullptr});
  return made;
}
ValueId Graph::find_input(std::string_view name) const {
  for (const auto& input : inputs)
    if (input.name == name) return input.value;
  return kNoValue;
}
ValueId Graph::find_output(std::string_view name) const {
  for (const auto& output : outputs)
    if (output.name == name) return output.value;
  return kNoValue;
}

std::string_view name(InputKind kind) {
  switch (kind) {
    case InputKind::state:
      return "state";
    case InputKind::batch:
      return "batch";
    case InputKind::scalar:
      return "scalar";
    case InputKind::value:
      return "value";
  }
  return "?";
}
std::string_view name(OutputKind kind) {
  switch (kind) {
    case OutputKind::state:
      return "state";
    case OutputKind::metric:
      return "metric";
    case OutputKind::value:
      return "value";
  }
  return "?";
}

}  // namespace lockstep
