// Fit: missing, extra, mis-shaped, each with the nearest name.
#include "checkpoint/plan/fit.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/text.h"

namespace lockstep::checkpoint {

std::vector<NamedType> types_of(const std::vector<Array*>& arrays) {
  std::vector<NamedType> out;
  for (const Array* array : arrays) out.push_back({array->fqn, array->dtype, array->shape});
  return out;
}

std::string type_text(const NamedType& type) {
  return type.other.empty() ? shape_text(type.dtype, type.shape)
                            : shortened(printable(type.other), 40) + str(type.shape);
}

namespace {
bool is_wider(const NamedType& stored, const NamedType& wanted) {
  return stored.other.empty() && stored.shape == wanted.shape && widens(wanted.dtype, stored.dtype);
}
}  // namespace

bool widens(DType from, DType to) { return is_float(from) && is_float(to) && size_of(from) < size_of(to); }

std::string misfit_text(const std::vector<NamedType>& stored, const std::string& stored_where,
                        const std::vector<NamedType>& wanted, const std::string& wanted_where,
                        bool widening) {
  std::unordered_map<std::string, const NamedType*> have, want;
  std::vector<std::string> have_names, want_names;
  for (const auto& t : stored) have[t.fqn] = &t, have_names.push_back(t.fqn);
  for (const auto& t : wanted) want[t.fqn] = &t, want_names.push_back(t.fqn);
  std::vector<std::string> lines;
  auto hint = [&](const std::string& name, const std::vector<std::string>& known, const std::string& where) {
    std::string near = nearest(name, known);
    return near.empty() ? std::string() : str("; nearest in ", where, ": ", near);
  };
  constexpr size_t kShown = 12;  // of each kind
  auto more = [&](size_t count, const char* kind) {
    if (count > kShown) lines.push_back(str("  ", kind, ": and ", count - kShown, " more"));
  };
  size_t missing = 0, extra = 0, differ = 0, wider = 0;
  for (const auto& t : wanted)
    if (!have.count(t.fqn) && ++missing <= kShown)
      lines.push_back(str("  missing: ", t.fqn, ' ', type_text(t), hint(t.fqn, have_names, stored_where)));
  more(missing, "missing");
  for (const auto& t : stored)
    if (!want.count(t.fqn) && ++extra <= kShown)
      lines.push_back(str("  extra: ", t.fqn, ' ', type_text(t), hint(t.fqn, want_names, wanted_where)));
  more(extra, "extra");
  for (const auto& t : wanted) {
    auto found = have.find(t.fqn);
    if (found == have.end()) continue;
    const NamedType& s = *found->second;
    if (s.other.empty() && s.shape == t.shape &&
        (s.dtype == t.dtype || (widening && widens(s.dtype, t.dtype))))
      continue;
    wider += widening && is_wider(s, t);
    if (++differ > kShown) continue;
    lines.push_back(str("  differs: ", t.fqn, " is ", type_text(s), " in ", stored_where, " and ",
                        type_text(t), " in ", wanted_where));
  }
  more(differ, "differs");
  if (wider)
    lines.push_back(str(wider, wider == 1 ? " tensor is" : " tensors are", " stored in a wider dtype than ",
                        wanted_where,
                        " computes with, and nothing is rounded unasked: store them as float32, as "
                        "model.float().save_pretrained(FOLDER) of transformers or tensor.float() of PyTorch "
                        "does"));
  if (lines.empty()) return "";
  return str(stored_where, " does not fit ", wanted_where, ": ", missing, " missing, ", extra, " extra, ",
             differ, " of another shape or dtype\n", join(lines, "\n"));
}

}  // namespace lockstep::checkpoint
