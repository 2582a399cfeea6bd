// The text around the source of a registered op.
#include "compiler/codegen/statements/own_source.h"

#include "core/base/error.h"
#include "core/table/register.h"

namespace lockstep::compiler::codegen {

namespace {
std::string_view element_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "double";
    case DType::i32:
      return "int";
    case DType::i64:
      return "long";
    case DType::u32:
      return "unsigned";
    case DType::u64:
      return "unsigned long";
    case DType::u16:
      return "unsigned short";
    case DType::u8:
    case DType::boolean:
      return "unsigned char";
    default:
      return "float";
  }
}
std::string number_of(const Attrs& attrs, const std::string& name, AttrType type) {
  return type == AttrType::flag ? attrs.flag(name) ? "1" : "0" : number_text(attrs.number(name));
}
int64_t items_of(const OwnCode& own, const Shape& out) {
  if (own.work == OwnWork::all) return 1;
  if (own.work == OwnWork::element) return numel(out);
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < out.size(); ++d) rows *= out[d];
  return out.back() == 0 ? 0 : rows;
}
}  // namespace

const Node* own_node(const Graph& body) {
  if (body.nodes.size() != 1) return nullptr;
  const Op& row = op_row(body.nodes[0].op);
  return row.own && row.kind == OpKind::composite ? &body.nodes[0] : nullptr;
}

OwnText own_text(const Graph& body, const std::string& source, const std::string& name,
                 std::string_view function, const std::vector<std::string>& pointers) {
  const Node& node = body.nodes[0];
  const OwnCode& own = *op_row(node.op).own;
  OwnText out;
  std::string own_lines;
  for (const std::string& line : split(source, '\n'))
    (trim(line).starts_with("#include") ? out.definitions : own_lines) += line + "\n";
  out.definitions +=
      str("namespace own_", name, " {\ntypedef long i64;\ntypedef ", element_type(body[node.inputs[0]].dtype),
          " real;\nstruct Tensor { void* data; int rank; const i64* shape; i64 count; };\n#define OWN_FN ",
          function, "\n", own_lines, "#undef OWN_FN\n}\n");
  size_t next = 0;
  auto tensors = [&](const char* label, const std::vector<ValueId>& values) {
    std::string list;
    for (ValueId v : values) {
      std::vector<std::string> sizes;
      for (int64_t size : body[v].shape) sizes.push_back(str(size));
      sizes.emplace_back("0");  // arrays need at least one element
      out.arguments += str("  const long s", next, "[] = {", join(sizes, ", "), "};\n");
      list += str("{", pointers.at(next), ", ", body[v].shape.size(), ", s", next, ", ", numel(body[v].shape),
                  "}, ");
      ++next;
    }
    out.arguments += str("  const own_", name, "::Tensor ", label, "[] = {", list, "};\n");
  };
  tensors("in", node.inputs);
  tensors("out", node.outputs);
  out.arguments += "  const double attrs[] = {";
  for (const auto& [attr, type] : own.definition.attrs)
    out.arguments += number_of(node.attrs, attr, type) + ", ";
  out.arguments += "0};\n";
  out.call = str("own_", name, "::run(in, out, attrs, item);");
  out.items = items_of(own, body[node.outputs[0]].shape);
  return out;
}

}  // namespace lockstep::compiler::codegen
