// State::set: every rank passes the whole tensor and keeps its part.
#include <cstring>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/mesh/nonfinite.h"
#include "core/mesh/together.h"
#include "core/nn/state.h"

namespace lockstep {

namespace {
void put(Array& array, const std::vector<std::byte>& whole_tensor) {
  const Box all = whole(array.shape);
  const size_t element = size_of(array.dtype);
  array.fetch();
  for (const Piece& piece : array.pieces)
    for_each_run(piece.global, all, piece.frame(array.local_shape),
                 [&](int64_t from, int64_t to, int64_t count) {
                   std::memcpy(array.data.data() + static_cast<size_t>(to) * element,
                               whole_tensor.data() + static_cast<size_t>(from) * element,
                               static_cast<size_t>(count) * element);
                 });
  array.host_wrote();
  if (Device* const device = array.device()) array.on(*device);
}
}  // namespace

void State::set(std::string_view fqn, const void* elements, DType dtype, const Shape& shape, Here at) {
  const std::string who = str("[set] ", line_of(at).text(), ": ");
  const uint64_t sum = together(*mesh_.world, [&] {
    const Spec& spec = specs_[index_of(fqn)];
    if (spec.dtype != dtype || spec.shape != shape)
      throw UserError(str(who, "\"", fqn, "\" is ", shape_text(spec.dtype, spec.shape),
                          ", and what it is set to ", shape_text(dtype, shape), "; ",
                          spec.dtype != dtype
                              ? str("convert it to ", name(spec.dtype), ", as array.astype() of NumPy does")
                              : "reshape it to its own shape"));
    if (const int64_t bad = first_nonfinite(dtype, elements, numel(shape)); bad >= 0)
      throw UserError(str(who, "element ", bad, " of what \"", fqn, "\" is set to is ",
                          number_text(get_double(dtype, elements, bad)), "; weights must be finite numbers"));
    return hash64({static_cast<const char*>(elements), static_cast<size_t>(numel(shape)) * size_of(dtype)});
  });
  const std::string first = broadcast_text(*mesh_.world, str(sum));
  together(*mesh_.world, [&] {
    if (first != str(sum))
      throw UserError(str(who, "\"", fqn, "\" is set to other values on rank ", mesh_.world->rank(),
                          " than on rank 0; give all ranks the same ones, as by one seed"));
  });
  std::vector<std::byte> kept(static_cast<size_t>(numel(shape)) * size_of(dtype));
  std::memcpy(kept.data(), elements, kept.size());
  const std::string name(fqn);
  if (allocated()) put(array(name), kept);
  start_with([name, kept = std::move(kept)](State& state) { put(state.array(name), kept); }, {name});
}

}  // namespace lockstep
