// Matches names of exact forms.
#include "core/files/checkpoint_names.h"

#include <algorithm>

#include "core/files/private_file.h"
#include "core/files/remove_known.h"

namespace lockstep {

bool is_checkpoint_file(std::string_view name) {
  constexpr std::string_view kRank = "rank-", kEnd = ".safetensors";
  if (name.ends_with(kDraft)) return name == draft_of("manifest.json");  // of a process that was killed
  if (name == "manifest.json") return true;
  if (!name.starts_with(kRank) || !name.ends_with(kEnd) || name.size() < kRank.size() + kEnd.size())
    return false;
  const std::string_view middle = name.substr(kRank.size(), name.size() - kRank.size() - kEnd.size());
  const size_t dot = middle.find('.');
  return is_numbered(middle.substr(0, dot), "") &&
         (dot == std::string_view::npos || is_numbered(middle.substr(dot), "."));
}

std::string without_old(const std::string& name) {
  const size_t at = name.find(".old");
  const std::string_view behind = std::string_view(name).substr(std::min(at, name.size()));
  return behind == ".old" || is_numbered(behind, ".old.") ? name.substr(0, at) : name;
}

bool is_step_folder(const std::string& name) {
  const std::string last = ".tmp";
  return is_numbered(without_old(name.ends_with(last) ? name.substr(0, name.size() - last.size()) : name),
                     "step-");
}

}  // namespace lockstep
