// Turns definitions of registered ops into rows.
#include "core/table/register.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/table/definition.h"

namespace lockstep {

namespace {
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::string> hashes;  // by name; "" until it is needed
};
Registry& registry() {
  static Registry all;
  return all;
}

// Checks the result of a definition's gradient function.
std::vector<Tensor> checked_gradients(const OpDefinition& d, const VjpContext& c) {
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[", d.name, "] ", source_line(*c.in[0].builder(), Here::current()).text(),
                        ": its gradient ", what));
  };
  std::vector<Tensor> out = d.gradient(c);
  if (out.size() != c.in.size())
    refuse(str("gives ", out.size(), " tensors for ", c.in.size(),
               " inputs; give one per input, an empty Tensor for none"));
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].defined() && (out[i].shape() != c.in[i].shape() || out[i].dtype() != c.in[i].dtype()))
      refuse(str("is ", out[i].text(), " for input ", i, ", which is ", c.in[i].text(),
                 "; a gradient has the type of its input"));
  return out;
}
std::vector<Tensor> checked_expansion(const OpDefinition& d, OpId op, const ExpandContext& c) {
  std::vector<TypedShape> in;
  for (const Tensor& x : c.in) in.push_back({x.dtype(), x.shape()});
  const SourceLine at = c.builder ? source_line(*c.builder, Here::current()) : SourceLine{};
  const std::vector<TypedShape> types = types_of(d, {op, in, c.attrs, at});
  std::vector<Tensor> out = d.expand(c);
  std::vector<TypedShape> made;
  for (const Tensor& y : out) made.push_back(y.defined() ? TypedShape{y.dtype(), y.shape()} : TypedShape{});
  if (made != types)
    throw UserError(str("[", d.name, "] ", at.text(), ": its expansion gives ", types_text(made),
                        ", its type rule ", types_text(types)));
  return out;
}

Op row_of(const std::shared_ptr<const OwnCode>& own, OpId op) {
  const OpDefinition& d = own->definition;
  Op row;
  row.id = op;
  row.kind = d.scalar.empty() ? OpKind::composite : OpKind::pointwise;
  for (const auto& [name, type] : d.attrs) row.attrs.push_back({name, type});
  row.infer = [own](const InferContext& c) { return types_of(own->definition, c); };
  row.split = [own](const InferContext& c) { return split_of(own->definition, c); };
  if (d.gradient) row.vjp = [own](const VjpContext& c) { return checked_gradients(own->definition, c); };
  if (d.expand)
    row.expand = [own, op](const ExpandContext& c) { return checked_expansion(own->definition, op, c); };
  row.scalar = ScalarCode(d.scalar.c_str(), d.cost);
  row.samples = d.samples;
  row.own = own;
  return row;
}
OwnWork work_of(const std::string& placement) {
  return placement == "pointwise" ? OwnWork::element : placement == "rows" ? OwnWork::row : OwnWork::all;
}
// Traces the expansion on every sample, so that its errors are reported at registration.
void try_expansion(const OpDefinition& d, OpId op) {
  for (const Sample& sample : d.samples) {
    auto builder = std::make_shared<Builder>();
    std::vector<Tensor> in;
    for (const TypedShape& type : sample.in)
      in.emplace_back(builder, builder->graph.add_input(InputKind::value, "in", type.dtype, type.shape));
    (void)checked_expansion(d, op, {in, sample.attrs, builder});
  }
}
std::string hash_of(const OpDefinition& d, OpId op) { return hash_hex(definition_text(d, op)); }
}  // namespace

OpId register_op(OpDefinition definition, Here at) {
  const std::string name = definition.name;
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[register_op] \"", name, "\" at ", line_of(at).text(), ": ", what));
  };
  if (const std::string what = defect_of(definition); !what.empty()) refuse(what);
  const OpId op = intern(name);
  if (definition.expand && !find_op(op)) try {  // without the lock: it may register ops that it uses
      try_expansion(definition, op);
    } catch (const Error& error) { refuse(str("its expansion fails on a sample: ", error.what())); }
  {
    Registry& all = registry();
    std::lock_guard lock(all.mutex);
    if (!find_op(op)) {
      add_row(
          row_of(std::make_shared<const OwnCode>(OwnCode{definition, work_of(definition.placement)}), op));
      all.hashes[name] = "";
      return op;
    }
  }
  // The op is already registered: ranks that are threads each register it.
  const OpDefinition& known = find_op(op)->own->definition;
  if (known.host != definition.host || hash_of(definition, op) != definition_hash(op))
    refuse("another definition has this name; give one of them another name");
  return op;
}

std::string definition_hash(OpId op) {
  const Op* row = find_op(op);
  if (!row || !row->own) return "";
  Registry& all = registry();
  const std::string name(op.name());
  {
    std::lock_guard lock(all.mutex);
    if (std::string known = all.hashes[name]; !known.empty()) return known;
  }
  const std::string made = hash_of(row->own->definition, op);  // tracing looks up other registered ops
  std::lock_guard lock(all.mutex);
  return all.hashes[name] = made;
}

std::vector<std::pair<std::string, std::string>> registered_ops() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Op* row : all_ops())
    if (row->own) out.emplace_back(row->id.name(), definition_hash(row->id));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace lockstep
