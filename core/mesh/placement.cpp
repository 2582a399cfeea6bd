// Placement words to text and back.
#include "core/mesh/placement.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "core/base/error.h"

namespace lockstep {

std::string_view name(ReduceOp op) {
  return op == ReduceOp::sum ? "sum" : op == ReduceOp::max ? "max" : "min";
}

std::string text(const Placement& p) {
  switch (p.kind) {
    case Placement::Kind::replicate:
      return "Replicate";
    case Placement::Kind::shard:
      if (p.groups == 0) return str("Shard(", p.dim, ",owned)");
      return p.groups > 1 ? str("Shard(", p.dim, ",groups=", p.groups, ")") : str("Shard(", p.dim, ")");
    case Placement::Kind::partial:
      return str("Partial(", name(p.op), ")");
    case Placement::Kind::per_lane:
      return p.dim < 0 ? "PerLane" : str("PerLane(", p.dim, ")");
  }
  return "?";
}

Placement parse_placement(std::string_view given) {
  std::string word;
  for (char c : given)
    if (!std::isspace(static_cast<unsigned char>(c)))
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  auto argument = [&](std::string_view head) -> std::string {
    if (word.size() > head.size() + 2 && word.compare(0, head.size(), head) == 0 &&
        word[head.size()] == '(' && word.back() == ')')
      return word.substr(head.size() + 1, word.size() - head.size() - 2);
    return "";
  };
  auto number = [](const std::string& digits, int& out) {
    char* end = nullptr;
    long value = std::strtol(digits.c_str(), &end, 10);
    out = static_cast<int>(value);
    return !digits.empty() && *end == 0 && value >= 0 && value < 1000;
  };
  if (word == "replicate" || word == "replicate()") return Replicate();
  if (word == "perlane") return PerLane();
  int dim = 0, groups = 1;
  if (auto inside = argument("perlane"); !inside.empty() && number(inside, dim)) return PerLane(dim);
  if (auto inside = argument("shard"); !inside.empty()) {
    auto parts = split(inside, ',');
    if (parts.size() == 2 && parts[1] == "owned" && number(parts[0], dim)) return Shard(dim, 0);
    bool good = number(parts[0], dim) && parts.size() <= 2;
    if (good && parts.size() == 2) {
      std::string second = parts[1].rfind("groups=", 0) == 0 ? parts[1].substr(7) : parts[1];
      good = number(second, groups) && groups >= 1;
    }
    if (good) return Shard(dim, groups);
  }
  if (auto inside = argument("partial"); !inside.empty())
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
      if (inside == name(op)) return Partial(op);
  throw UserError(
      str("\"", given,
          "\" is not a placement; write replicate, shard(DIM), shard(DIM,groups=N) or partial(sum)"));
}

}  // namespace lockstep
