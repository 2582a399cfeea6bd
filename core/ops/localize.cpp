// Computes the local values of the few attributes that are sizes.
#include "core/ops/localize.h"

#include "core/base/error.h"

namespace lockstep {

Attrs localize_attrs(const Op& op, const Attrs& attrs, const std::vector<Shape>& local_out) {
  Attrs local = attrs;
  if (attrs.has("shape")) local.set("shape", local_out.at(0));
  if (attrs.has("rows")) local.set("rows", local_out.at(0).at(0));
  if (op.id == ops::slice) {  // a dim that may be sharded is taken whole, with step 1
    std::vector<int64_t> limit = attrs.list("limit");
    const auto &start = attrs.list("start"), &step = attrs.list("step");
    LS_CHECK(local_out.at(0).size() == limit.size(), "slice of ", limit.size(),
             " dims has a local output of ", local_out[0].size());
    for (size_t d = 0; d < limit.size(); ++d)
      if (step[d] == 1) limit[d] = start[d] + local_out[0][d];
    local.set("limit", limit);
  }
  return local;
}

// Dims whose letter is not sharded keep their size.
Shape localize_shape(const Shape& shape, const std::string& letters, const std::map<char, int64_t>& sizes) {
  LS_CHECK(letters.size() == shape.size(), "letters \"", letters, "\" for ", shape.size(), " dims");
  Shape local = shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (auto found = sizes.find(letters[d]); found != sizes.end()) local[d] = found->second;
  return local;
}

Attrs localize_attrs(const Op& op, const Attrs& attrs, const SplitRule& rule,
                     const std::vector<TypedShape>& out, const std::map<char, int64_t>& sizes) {
  std::vector<Shape> local;
  for (size_t i = 0; i < out.size(); ++i)
    local.push_back(localize_shape(out[i].shape, rule.out.at(i), sizes));
  return localize_attrs(op, attrs, local);
}

}  // namespace lockstep
