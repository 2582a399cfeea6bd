// Registered passes by name, and the checks of their results.
#include "compiler/own_pass.h"

#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
struct Known {
  std::string after;
  OwnPass pass;
};
struct Registry {
  std::mutex mutex;
  std::map<std::string, Known> passes;
};
Registry& registry() {
  static Registry all;
  return all;
}
}  // namespace

std::string add_own_pass(const std::string& after, const std::string& name, OwnPass pass) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  return all.passes.try_emplace(name, Known{after, std::move(pass)}).first->second.after;
}

std::vector<std::string> own_pass_names() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<std::string> out;
  for (const auto& [name, known] : all.passes) out.push_back(name);
  return out;
}

std::vector<NamedPass> own_passes_after(const std::string& row, const std::vector<std::string>& wanted) {
  const std::vector<std::string> names = own_pass_names();
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<NamedPass> out;
  for (const std::string& name : wanted) {
    const auto found = all.passes.find(name);
    if (found == all.passes.end())
      throw UserError(
          str("compile.extra_passes: no pass \"", name, "\" is registered",
              names.empty() ? "" : str("; registered: ", join(names, ", ")),
              "; register_pass(after, name, function) makes one known before the step is compiled"));
    if (found->second.after == row) out.push_back({name, found->second.pass});
  }
  return out;
}

Graph run_own_pass(const NamedPass& own, const Graph& graph) {
  auto refuse = [&](const std::string& what) {
    throw UserError(str("compile.extra_passes: pass \"", own.name, "\" ", what));
  };
  Graph made = own.pass(graph);
  const auto words = [](const Graph& g, const auto& end) {
    return str(name(end.kind), " \"", end.name, "\" ", shape_text(g[end.value].dtype, g[end.value].shape));
  };
  const auto same = [&](const auto& before, const auto& after, const char* what) {
    if (before.size() != after.size())
      refuse(
          str("gives a graph with ", after.size(), " ", what, "s for ", before.size(), "; they must stay"));
    for (size_t i = 0; i < before.size(); ++i)
      if (const std::string old = words(graph, before[i]), now = words(made, after[i]); old != now)
        refuse(str("makes ", what, " ", i, " ", now, ", which was ", old, "; they must stay"));
  };
  try {
    verify(made, own.name);
  } catch (const InternalError& error) {
    refuse(str("gives a graph that does not fit the op table: ", error.what()));
  }
  same(graph.inputs, made.inputs, "input");
  same(graph.outputs, made.outputs, "output");
  return made;
}

}  // namespace lockstep::compiler
