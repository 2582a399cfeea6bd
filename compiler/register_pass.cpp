// Checks and registers a pass.
#include "compiler/register_pass.h"

#include <algorithm>
#include <vector>

#include "compiler/pipeline.h"
#include "core/base/error.h"
#include "core/table/definition.h"

namespace lockstep::compiler {

void register_pass(const std::string& after, const std::string& name, OwnPass pass) {
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[register_pass] \"", name, "\": ", what));
  };
  if (!is_own_name(name))
    refuse("a name has at least two parts of small letters, digits and _, as \"mine::fold\"");
  if (!pass) refuse("its function is empty");
  std::vector<std::string> rows;
  for (auto table : {step_passes(), phase_passes()})
    for (const PassRow& row : table) rows.emplace_back(row.name);
  if (std::find(rows.begin(), rows.end(), after) == rows.end())
    refuse(str("there is no pass \"", after, "\" to run after; nearest: ", nearest(after, rows),
               "; passes: ", join(rows, ", ")));
  if (const std::string known = add_own_pass(after, name, std::move(pass)); known != after)
    refuse(str("it already runs after \"", known, "\", not after \"", after,
               "\"; give one of them another name"));
}

}  // namespace lockstep::compiler
