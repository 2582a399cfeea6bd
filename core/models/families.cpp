// The list of families, and those registered.
#include "core/models/families.h"

#include <deque>

#include "core/nn/layers.h"

namespace lockstep::models {

namespace {
std::vector<const Family*>& list() {
#define LOCKSTEP_FAMILY_ADDRESS(name) &name(),
  static std::vector<const Family*> all = {LOCKSTEP_FAMILIES(LOCKSTEP_FAMILY_ADDRESS)};
#undef LOCKSTEP_FAMILY_ADDRESS
  return all;
}
// A registered family, and the texts that its row points to.
struct Registered {
  explicit Registered(Family given)
      : kind(given.kind), about(given.about), task(given.task), family(std::move(given)) {
    family.kind = kind, family.about = about, family.task = task;
  }
  Registered(const Registered&) = delete;
  std::string kind, about, task;
  Family family;
};
}  // namespace

std::span<const Family* const> families() { return list(); }

void register_model(Family family, Here line) {
  const std::string kind(family.kind);
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[register_model] \"", kind, "\" at ", line_of(line).text(), ": ", what));
  };
  if (kind.empty()) refuse("its kind is empty; give the word that a config writes as model.kind");
  if (!family.keys || !family.make) refuse("it has no keys or no make; family_of<Options>({...}) gives both");
  for (const ConfigKey& row : family.keys())
    if (row.path == "kind")
      refuse("an option has the name \"kind\", which is model.kind; give it another name");
  for (const Family* known : families()) {
    if (known->kind == kind) refuse("another model has this kind; give one of them another name");
    if (const auto conflict = type_conflict(family.keys(), known->keys()))
      refuse(str("its option ", conflict->first.path, " has the type ", conflict->first.type, ", and model.",
                 conflict->second.path, " of ", known->kind, " the type ", conflict->second.type,
                 "; give it that type, or another name"));
  }
  static std::deque<Registered> registered;
  list().push_back(&registered.emplace_back(std::move(family)).family);
}

std::vector<std::string> family_names() {
  std::vector<std::string> out;
  for (const Family* row : families()) out.emplace_back(row->kind);
  return out;
}

const Family& family(std::string_view kind) {
  for (const Family* row : families())
    if (row->kind == kind) return *row;
  const std::string near = nearest(kind, family_names());
  throw UserError(str("[model] no model is called \"", shortened(std::string(kind), 120), "\"",
                      near.empty() ? "" : str("; did you mean \"", near, "\"?"),
                      "; kinds: ", join(family_names(), ", ")));
}

Model build(Scope at, std::string_view kind, const Json& options, Here line) {
  Model out = family(kind).make(at, options, line);
  // A family names its tensors relative to its own root.
  if (!at.path().empty())
    for (PlacementRule& rule : out.placements) rule.params = at.path() + "." + rule.params;
  return out;
}

Tensor Model::logits(Tensor ids, bool training) const {
  Evaluation evaluation(!training || Evaluation::active());
  return forward({ids})[0];
}

std::string_view words(Output output) {
  switch (output) {
    case Output::next_tokens:
      return "logits of the next token";
    case Output::tokens:
      return "logits of each token, which sees all";
    case Output::sequences:
      return "logits of a decoder's next token";
    case Output::classes:
      return "logits of classes";
    case Output::values:
      return "values";
    case Output::pixels:
      return "logits of each pixel";
    case Output::reconstruction:
      return "its input again";
    case Output::adversaries:
      return "a generator and a discriminator";
  }
  return "";
}

}  // namespace lockstep::models
