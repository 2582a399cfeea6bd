// Finding what is not finite: one pass over the exponents of the bits, then an agreement on the first place.
#include "core/mesh/nonfinite.h"

#include <algorithm>
#include <limits>

#include "core/base/text.h"

namespace lockstep {

namespace {
constexpr int64_t kBlock = 4096;  // elements that are asked for at once

// All bits of the exponent are set in NaN and infinity, and in nothing else.
template <class Bits, Bits Exponent>
int64_t first_in(const std::byte* bytes, int64_t count) {
  const auto* bits = reinterpret_cast<const Bits*>(bytes);
  for (int64_t from = 0; from < count; from += kBlock) {
    const int64_t to = std::min(from + kBlock, count);
    Bits any = 0;
    for (int64_t i = from; i < to; ++i) any |= static_cast<Bits>((bits[i] & Exponent) == Exponent);
    if (!any) continue;
    for (int64_t i = from; i < to; ++i)
      if ((bits[i] & Exponent) == Exponent) return i;
  }
  return -1;
}

}  // namespace

int64_t first_nonfinite(DType dtype, const void* data, int64_t count) {
  const auto* at = static_cast<const std::byte*>(data);
  switch (dtype) {
    case DType::f32:
      return first_in<uint32_t, 0x7f800000u>(at, count);
    case DType::f64:
      return first_in<uint64_t, 0x7ff0000000000000ull>(at, count);
    case DType::bf16:
      return first_in<uint16_t, 0x7f80u>(at, count);
    case DType::f16:
      return first_in<uint16_t, 0x7c00u>(at, count);
    default:
      return -1;
  }
}

namespace {
// Calls visit(place in the whole tensor, element of this rank) for what is not finite, until it returns
// false.
template <class Visit>
void each_nonfinite(const Array& array, Visit visit) {
  const auto size = static_cast<int64_t>(size_of(array.dtype));
  bool more = true;
  for (const auto& piece : array.pieces)
    for_each_run(piece.global, whole(array.shape), piece.frame(array.local_shape),
                 [&](int64_t global, int64_t local, int64_t count) {
                   for (int64_t done = 0; more && done < count;) {
                     const int64_t found = first_nonfinite(
                         array.dtype, array.data.data() + (local + done) * size, count - done);
                     if (found < 0) return;
                     more = visit(global + done + found, local + done + found);
                     done += found + 1;
                   }
                 });
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

std::optional<int64_t> first_nonfinite(const Array& array) {
  if (!is_float(array.dtype)) return {};
  array.fetch();
  if (first_nonfinite(array.dtype, array.data.data(), array.local_numel()) < 0) return {};
  int64_t first = std::numeric_limits<int64_t>::max();
  each_nonfinite(array, [&](int64_t place, int64_t) {
    first = std::min(first, place);
    return false;
  });
  return first;
}

std::optional<NonFinite> find_nonfinite(const std::vector<const Array*>& arrays, const LiveMesh& mesh) {
  Group& world = *mesh.world;
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  int64_t tensor = none, place = none;
  for (size_t a = 0; a < arrays.size() && tensor == none; ++a)
    if (auto found = first_nonfinite(*arrays[a])) tensor = static_cast<int64_t>(a), place = *found;
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
  // What it is, of one of the ranks that have it; and how many there are, each counted by one rank.
  int64_t words[2] = {0, 0};
  if (own_place == place)
    each_nonfinite(array, [&](int64_t at, int64_t element) {
      if (at != place) return true;
      const double value = get_double(array.dtype, array.data.data(), element);
      words[0] = value != value ? 1 : value > 0 ? 2 : 3;
      return false;
    });
  for (const Array* each : arrays)
    if (is_float(each->dtype) && is_first_replica(*each, mesh.words, mesh.rank))
      each_nonfinite(*each, [&](int64_t, int64_t) { return ++words[1], true; });
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
