// Counts and names the parameters that tp leaves whole.
#include "compiler/compile/model_dims.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
std::vector<std::string> parameters_of(const State& state) {
  std::vector<std::string> out;
  for (const auto& spec : state.specs())
    if (spec.role == Role::parameter) out.push_back(spec.fqn);
  return out;
}

// blocks.3.up.weight -> blocks.*.up.weight
std::string without_numbers(const std::string& fqn) {
  std::vector<std::string> parts = split(fqn, '.');
  for (auto& part : parts)
    if (std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); })) part = "*";
  return join(parts, ".");
}
}  // namespace

void need_split_on_tp(const State& state, const Mesh& mesh) {
  const int64_t tp = mesh.size("tp");
  if (tp < 2) return;
  const auto known = parameters_of(state);
  if (known.empty() || state.whole_on("tp").size() < known.size()) return;
  throw UserError(str("the mesh ", text(mesh), " has ", tp,
                      " ranks on tp, but no parameter is split on it: each of them would compute all of the "
                      "step; say what tp splits, as in ",
                      "state.place({{\"tp\", \"", known.front(),
                      "\", Shard(0)}}) or \"placements\": [{\"dim\": \"tp\", \"params\": \"", known.front(),
                      "\", \"place\": \"shard(0)\"}], or name the dim dp_replicate or dp_shard"));
}

std::string whole_on_tp(const State& state, const Mesh& mesh) {
  if (mesh.size("tp") < 2) return "";
  const auto whole = state.whole_on("tp");
  const auto all = parameters_of(state);
  // If all are whole, need_split_on_tp refuses the mesh.
  if (whole.empty() || whole.size() == all.size()) return "";
  constexpr size_t kShown = 6;
  std::vector<std::string> names;
  for (const auto& fqn : whole)
    if (const std::string name = without_numbers(fqn);
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  const size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - more);
  return str("on tp, ", whole.size(), " of ", all.size(), " parameters stay whole: ", join(names, ", "),
             more ? str(" and ", more, " more") : "");
}

}  // namespace lockstep::compiler
