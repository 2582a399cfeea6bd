// Tells optimizer moments from weights by their names.
#include "checkpoint/optimizer_tensors.h"

#include <algorithm>
#include <set>

namespace lockstep::checkpoint {

std::vector<std::string> optimizer_tensors(const Manifest& manifest) {
  std::set<std::string> names, roots;
  for (const TensorRecord& tensor : manifest.tensors) names.insert(tensor.fqn);
  for (const std::string& fqn : names) {
    const size_t last = fqn.rfind('.');
    if (last == std::string::npos) continue;
    for (size_t dot = fqn.find('.'); dot < last; dot = fqn.find('.', dot + 1))
      if (names.count(fqn.substr(dot + 1, last - dot - 1))) roots.insert(fqn.substr(0, dot + 1));
  }
  std::vector<std::string> out;
  for (const TensorRecord& tensor : manifest.tensors)
    if (std::any_of(roots.begin(), roots.end(),
                    [&](const std::string& root) { return tensor.fqn.rfind(root, 0) == 0; }))
      out.push_back(tensor.fqn);
  return out;
}

}  // namespace lockstep::checkpoint
