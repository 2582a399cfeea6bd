// Compares two tapes in order until the first difference.
#include "launcher/cli/look/tape_difference.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/tools/compare.h"
#include "core/base/error.h"

namespace lockstep::launcher::cli {

using compiler::TapedValue;

TapeDifference first_difference(const std::vector<TapedValue>& a, const std::vector<TapedValue>& b) {
  TapeDifference out;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i, ++out.compared) {
    const TapedValue *x = i < a.size() ? &a[i] : nullptr, *y = i < b.size() ? &b[i] : nullptr;
    using Kind = TapeDifference::Kind;
    if (!x || !y || x->made != y->made || x->micro_batch != y->micro_batch)
      out.kind = Kind::graph;
    else if (x->hash != y->hash)
      out.kind = x->place < 0 ? Kind::batch : Kind::value;
    else
      continue;
    if (x) out.a = *x;
    if (y) out.b = *y;
    return out;
  }
  return out;
}

std::string element_words(const TapedValue& value, const std::vector<std::byte>& a,
                          const std::vector<std::byte>& b) {
  const size_t size = size_of(value.dtype);
  const int64_t count = numel(value.shape);
  LS_CHECK(a.size() == count * size && b.size() == a.size(), value.words, " has ", a.size(), " and ",
           b.size(), " bytes");
  int64_t first = -1, differing = 0;
  for (int64_t i = 0; i < count; ++i)
    if (std::memcmp(&a[i * size], &b[i * size], size) != 0) {
      if (first < 0) first = i;
      ++differing;
    }
  if (first < 0) return "";
  std::vector<int64_t> place(value.shape.size());
  int64_t rest = first;
  for (size_t d = place.size(); d-- > 0; rest /= value.shape[d]) place[d] = rest % value.shape[d];
  return str(str(place), ": ", checkpoint::value_text(value.dtype, a.data(), first), " and ",
             checkpoint::value_text(value.dtype, b.data(), first), " (", differing, " of ", count,
             count == 1 ? " element)" : " elements)");
}

}  // namespace lockstep::launcher::cli
