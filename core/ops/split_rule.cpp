// Parses placement rules: "...mk,nk->...mn" and the types of a node to one letter per tensor dim.
#include <algorithm>
#include <cctype>
#include <map>

#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep {

SplitRule parse_split_rule(std::string_view rule, const std::vector<TypedShape>& in,
                           const std::vector<TypedShape>& out) {
  SplitRule parsed;
  if (rule.empty()) {
    for (const auto& type : in) parsed.in.push_back(std::string(type.shape.size(), '#'));
    for (const auto& type : out) parsed.out.push_back(std::string(type.shape.size(), '#'));
    parsed.fixed = "#";
    return parsed;
  }
  size_t arrow = rule.find("->");
  LS_CHECK(arrow != std::string_view::npos, "placement rule \"", rule, "\" has no \"->\"");
  std::string unused;  // letters for the dims of "...", equal for all tensors
  for (char letter = 'a'; letter <= 'z'; ++letter)
    if (rule.find(letter) == std::string_view::npos) unused += letter;
  std::map<char, int64_t> sizes;
  int64_t leading = -1;
  // Replaces "..." by letters that the rule does not use, and checks that equal letters have equal sizes.
  auto side = [&](std::string_view text, const std::vector<TypedShape>& types) {
    std::vector<std::string> parts;
    if (!types.empty() || !text.empty()) parts = split(text, ',');
    LS_CHECK(parts.size() == types.size(), "placement rule \"", rule, "\" has ", parts.size(),
             " tensors where the op has ", types.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      std::string letters = trim(parts[i]);
      const Shape& shape = types[i].shape;
      if (letters.starts_with("...")) {
        letters.erase(0, 3);
        auto dims = static_cast<int64_t>(shape.size()) - static_cast<int64_t>(letters.size());
        LS_CHECK(dims >= 0 && (leading < 0 || leading == dims) && dims <= static_cast<int64_t>(unused.size()),
                 "placement rule \"", rule, "\": \"...\" is ", leading, " dims and ", dims, " dims");
        leading = dims;
        letters = unused.substr(0, dims) + letters;
      }
      LS_CHECK(letters.size() == shape.size(), "placement rule \"", rule, "\" has ", letters.size(),
               " letters for ", shape_text(types[i].dtype, shape));
      for (size_t d = 0; d < letters.size(); ++d) {
        char letter = letters[d];
        LS_CHECK(std::isalpha(static_cast<unsigned char>(letter)) || letter == '#', "placement rule \"", rule,
                 "\": '", letter, "' is not a letter");
        if (letter == '#' || std::isupper(static_cast<unsigned char>(letter)))
          if (parsed.fixed.find(letter) == std::string::npos) parsed.fixed += letter;
        if (letter == '#') continue;
        auto [known, fresh] = sizes.emplace(letter, shape[d]);
        LS_CHECK(fresh || known->second == shape[d], "placement rule \"", rule, "\": '", letter, "' is ",
                 known->second, " and ", shape[d]);
      }
      parts[i] = letters;
    }
    return parts;
  };
  parsed.in = side(rule.substr(0, arrow), in);
  parsed.out = side(rule.substr(arrow + 2), out);
  return parsed;
}

}  // namespace lockstep
