// Applies name rules: matches {i} and {p} in one name and inserts them into the other.
#include "launcher/hf/names.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"

namespace lockstep::launcher::hf {

namespace {
struct Found {
  std::string i, p;
};
std::optional<Found> match(std::string_view pattern, std::string_view name) {
  Found out;
  while (!pattern.empty()) {
    if (pattern.starts_with("{i}") || pattern.starts_with("{p}")) {
      const bool block = pattern[1] == 'i';
      size_t n = 0;
      if (block)
        while (n < name.size() && name[n] >= '0' && name[n] <= '9') ++n;
      else
        n = name == "weight" || name == "bias" ? name.size() : 0;
      if (n == 0) return {};
      (block ? out.i : out.p) = name.substr(0, n);
      pattern.remove_prefix(3), name.remove_prefix(n);
    } else {
      if (name.empty() || name[0] != pattern[0]) return {};
      pattern.remove_prefix(1), name.remove_prefix(1);
    }
  }
  return name.empty() ? std::optional(out) : std::nullopt;
}

std::string filled(std::string_view pattern, const Found& found) {
  std::string out(pattern);
  for (const auto& [word, text] : {std::pair("{i}", found.i), std::pair("{p}", found.p)})
    if (const size_t at = out.find(word); at != std::string::npos) out.replace(at, 3, text);
  return out;
}
}  // namespace

std::vector<Part> parts_of(const HfFamily& family, const std::string& fqn, const Shape& shape) {
  std::vector<Part> out;
  for (const NameRule& rule : family.names) {
    const auto found = match(rule.ours, fqn);
    if (!found) continue;
    Part part{filled(rule.theirs, *found), shape, rule.how, rule.part, rule.parts};
    if (rule.how == How::transposed) std::reverse(part.shape.begin(), part.shape.end());
    if (rule.how == How::rows) part.shape[0] /= rule.parts;
    out.push_back(std::move(part));
  }
  LS_CHECK(!out.empty(), "no rule of ", family.model_type, " names ", fqn);
  return out;
}

std::string spelled(const HfFamily& family, const std::string& name, bool bare,
                    const std::vector<std::string>& known) {
  std::string out = name;
  for (const auto& [older, today] : family.renamed)
    if (out.ends_with(older)) out.replace(out.size() - older.size(), older.size(), today);
  if (bare && std::find(known.begin(), known.end(), out) == known.end())
    return std::string(family.prefix) + out;
  return out;
}

}  // namespace lockstep::launcher::hf
