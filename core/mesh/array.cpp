// Arrays on a mesh, and the layout-independent state hash.
#include "core/mesh/array.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep {

Group& LiveMesh::group_on(const Device& device, std::string_view dim_name) const {
  const int dim = words.find(dim_name);
  const bool all = dim_name == kDataDims || (dim < 0 && is_data_dim(dim_name));
  if (dim < 0 && !all) return group(dim_name);
  if (device.addressable()) return all ? *data : *groups[dim];
  LS_CHECK(device_data && device_groups.size() == groups.size(), "the mesh has no group on ",
           device.describe(), "; join_device() gives it one");
  return all ? *device_data : *device_groups[dim];
}

LiveMesh solo_mesh() {
  auto group = solo_group();
  LiveMesh mesh;
  mesh.world = mesh.data = group;
  mesh.groups = {group};
  return mesh;
}

Array make_array(std::string fqn, DType dtype, Shape shape, Layout layout, const Mesh& mesh, int64_t rank,
                 bool allocate) {
  Array out;
  out.fqn = std::move(fqn);
  out.dtype = dtype;
  out.shape = std::move(shape);
  out.layout = std::move(layout);
  out.pieces = local_pieces(out.layout, mesh, out.shape, mesh.coordinate(rank));
  out.local_shape = local_shape(out.layout, mesh, out.shape, mesh.coordinate(rank));
  if (allocate) out.data = Buffer(out.local_bytes());
  return out;
}

void Array::fetch() const {
  if (!remote_ || !remote_->host_old) return;
  copy_to_host(*remote_->device, data.data(), remote_->data.data(), local_bytes());
  remote_->host_old = false;
}
void Array::host_wrote() {
  ++version_;
  if (remote_) remote_->old = true, remote_->host_old = false;
}
std::byte* Array::on(Device& device) {
  LS_CHECK(data, fqn, " is not allocated");
  if (device.addressable()) {
    fetch();
    return data.data();
  }
  if (!remote_) {
    remote_ = std::make_shared<Remote>();
    remote_->device = &device;
    remote_->data = Buffer(local_bytes(), device.memory());
    remote_->old = version_ > 0;  // both copies start as zeros
  }
  LS_CHECK(remote_->device == &device, fqn, " lies on another device");
  if (remote_->old) copy_to_device(device, remote_->data.data(), data.data(), local_bytes());
  remote_->old = false;
  return remote_->data.data();
}
void Array::device_wrote(Device& device) {
  if (device.addressable()) return host_wrote();  // it wrote `data`
  ++version_;
  if (remote_) remote_->host_old = true;
}
void Array::device_wrote() { remote_ ? device_wrote(*remote_->device) : host_wrote(); }

bool is_first_replica(const Array& array, const Mesh& mesh, int64_t rank) {
  auto at = mesh.coordinate(rank);
  for (int d = 0; d < mesh.ndim(); ++d)
    if (array.layout.on(d).kind != Placement::Kind::shard && at[d] != 0) return false;
  return true;
}

void StateHash::add(const StateHash& other) {
  lo += other.lo;
  hi += other.hi + (lo < other.lo ? 1 : 0);
}
std::string StateHash::hex() const {
  char out[33];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(hi),
                static_cast<unsigned long long>(lo));
  return out;
}

namespace {
uint64_t mix(uint64_t x) {  // the finaliser of splitmix64
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
template <class Bits>
StateHash hash_span(const Bits* data, int64_t begin, int64_t end, uint64_t index, uint64_t key) {
  StateHash sum;
  for (int64_t i = begin; i < end; ++i) {
    uint64_t a = mix((index + static_cast<uint64_t>(i)) * 0x9E3779B97F4A7C15ull + key);
    uint64_t b = mix(a ^ static_cast<uint64_t>(data[i]));
    sum.add({b, mix(b + key)});
  }
  return sum;
}

// The hash is a sum of 128-bit integers, so the threads that add spans of it do not change it.
template <class Bits>
StateHash hash_run(const Bits* data, int64_t count, uint64_t index, uint64_t key) {
  constexpr int64_t kSpan = 1 << 18;
  const int64_t spans = (count + kSpan - 1) / kSpan;
  StateHash sum;
#pragma omp parallel for schedule(static) if (spans > 1)
  for (int64_t span = 0; span < spans; ++span) {
    const StateHash part = hash_span(data, span * kSpan, std::min(count, (span + 1) * kSpan), index, key);
#pragma omp critical(state_hash)
    sum.add(part);
  }
  return sum;
}
}  // namespace

namespace {
StateHash hash_bits(DType dtype, const std::byte* at, int64_t count, uint64_t index, uint64_t key) {
  switch (size_of(dtype)) {
    case 1:
      return hash_run(reinterpret_cast<const uint8_t*>(at), count, index, key);
    case 2:
      return hash_run(reinterpret_cast<const uint16_t*>(at), count, index, key);
    case 4:
      return hash_run(reinterpret_cast<const uint32_t*>(at), count, index, key);
    default:
      return hash_run(reinterpret_cast<const uint64_t*>(at), count, index, key);
  }
}
uint64_t hash_key(const std::string& fqn, DType dtype) {
  return hash64(fqn, static_cast<uint64_t>(dtype) + 1);
}
}  // namespace

StateHash hash_box(const std::string& fqn, DType dtype, const Shape& shape, const Box& box,
                   const std::byte* data) {
  StateHash sum;
  const uint64_t key = hash_key(fqn, dtype);
  for_each_run(box, whole(shape), box, [&](int64_t global, int64_t local, int64_t count) {
    sum.add(hash_bits(dtype, data + local * static_cast<int64_t>(size_of(dtype)), count,
                      static_cast<uint64_t>(global), key));
  });
  return sum;
}

StateHash hash_elements(const Array& array) {
  array.fetch();
  StateHash sum;
  const uint64_t key = hash_key(array.fqn, array.dtype);
  for (const auto& piece : array.pieces)
    for_each_run(piece.global, whole(array.shape), piece.frame(array.local_shape),
                 [&](int64_t global, int64_t local, int64_t count) {
                   sum.add(hash_bits(array.dtype,
                                     array.data.data() + local * static_cast<int64_t>(size_of(array.dtype)),
                                     count, static_cast<uint64_t>(global), key));
                 });
  return sum;
}

std::string state_hash(const std::vector<const Array*>& arrays, const LiveMesh& mesh) {
  StateHash sum;
  for (const Array* array : arrays)
    if (is_first_replica(*array, mesh.words, mesh.rank)) sum.add(hash_elements(*array));
  return hash_of_ranks(sum, *mesh.world);
}

std::string hash_of_ranks(const StateHash& sum, Group& world) {
  // Carries between the halves: four 32-bit limbs in 64-bit words add up without overflow.
  uint64_t limbs[4] = {sum.lo & 0xffffffffu, sum.lo >> 32, sum.hi & 0xffffffffu, sum.hi >> 32};
  if (world.size() > 1) all_reduce(world, {limbs, limbs, 4, DType::i64, ReduceOp::sum}, "state_hash");
  StateHash out;
  for (int i = 0; i < 4; ++i) {
    StateHash part;
    if (i < 2)
      part.lo = limbs[i] << (32 * i), part.hi = i == 1 ? limbs[i] >> 32 : 0;
    else
      part.hi = limbs[i] << (32 * (i - 2));
    out.add(part);
  }
  return out.hex();
}

}  // namespace lockstep
