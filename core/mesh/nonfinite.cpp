// Finds values that are not finite: one pass over all tensors, then, if there is one, an agreement on the
// first index.
#include "core/mesh/nonfinite.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/text.h"
#include "core/mesh/content.h"

namespace lockstep {

int64_t first_nonfinite(DType dtype, const void* data, int64_t count) {
  return count_nonfinite(dtype, static_cast<const std::byte*>(data), count).first;
}

namespace {
// This rank's element at an index of the whole tensor, which it must hold.
double value_at(const Array& array, int64_t place) {
  const size_t size = size_of(array.dtype);
  const Array::Newest newest = array.newest();
  alignas(8) std::byte bits[8] = {};
  for (const auto& piece : array.pieces)
    for_each_run(piece.global, whole(array.shape), piece.frame(array.local_shape),
                 [&](int64_t global, int64_t local, int64_t count) {
                   if (place < global || place >= global + count) return;
                   const std::byte* at = newest.data + static_cast<size_t>(local + place - global) * size;
                   newest.device ? copy_to_host(*newest.device, bits, at, size)
                                 : static_cast<void>(std::memcpy(bits, at, size));
                 });
  return get_double(array.dtype, bits, 0);
}

std::vector<int64_t> coordinate(const Shape& shape, int64_t place) {
  std::vector<int64_t> out(shape.size());
  for (size_t d = shape.size(); d-- > 0; place /= shape[d]) out[d] = place % shape[d];
  return out;
}
}  // namespace

std::string NonFinite::text() const {
  std::string out = str(fqn, at.empty() ? std::string() : str(at), " is ",
                        value != value ? "nan"
                        : value > 0    ? "inf"
                                       : "-inf");
  if (values > 1)
    out += str(", and so ", values == 2 ? "is" : "are", " ", values - 1, " more value",
               values == 2 ? "" : "s", " of the state");
  return out;
}

std::optional<NonFinite> find_nonfinite(const std::vector<const Array*>& arrays, const LiveMesh& mesh) {
  Group& world = *mesh.world;
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  constexpr Asked finite{.finite = true};
  int64_t tensor = none, place = none;
  if (content_of(holdings(arrays), finite).nonfinite > 0)
    for (size_t a = 0; a < arrays.size() && tensor == none; ++a)
      if (const Content found = content_of(holdings({arrays[a]}), finite); found.nonfinite > 0)
        tensor = static_cast<int64_t>(a), place = found.first;
  auto least = [&](int64_t& word) {
    if (world.size() > 1) all_reduce(world, {&word, &word, 1, DType::i64, ReduceOp::min}, "finite state");
  };
  const int64_t mine = tensor;
  least(tensor);
  if (tensor == none) return {};
  const Array& array = *arrays[tensor];
  if (mine != tensor) place = none;
  const int64_t own_place = place;
  least(place);
  // The value, from one of the ranks that hold it, and the total number, in which one rank counts each
  // element.
  int64_t words[2] = {0, 0};
  if (mine == tensor && own_place == place) {
    const double value = value_at(array, place);
    words[0] = value != value ? 1 : value > 0 ? 2 : 3;
  }
  std::vector<const Array*> counted;
  for (const Array* each : arrays)
    if (is_first_replica(*each, mesh.words, mesh.rank)) counted.push_back(each);
  words[1] = content_of(holdings(counted), finite).nonfinite;
  if (world.size() > 1) {
    all_reduce(world, {&words[0], &words[0], 1, DType::i64, ReduceOp::max}, "finite state");
    all_reduce(world, {&words[1], &words[1], 1, DType::i64, ReduceOp::sum}, "finite state");
  }
  constexpr double inf = std::numeric_limits<double>::infinity();
  return NonFinite{array.fqn, coordinate(array.shape, place),
                   words[0] == 1   ? std::numeric_limits<double>::quiet_NaN()
                   : words[0] == 2 ? inf
                                   : -inf,
                   std::max<int64_t>(words[1], 1)};
}

}  // namespace lockstep
