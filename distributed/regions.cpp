// Computes the regions of each verb.
#include "distributed/regions.h"

#include <numeric>

namespace lockstep::distributed {

namespace {
size_t bytes(int64_t count, DType dtype) { return count * size_of(dtype); }
size_t bytes(const std::vector<int64_t>& counts, DType dtype) {
  return bytes(std::accumulate(counts.begin(), counts.end(), int64_t{0}), dtype);
}
Regions regions(const AllReduce& c, int) {
  return {c.in, bytes(c.count, c.dtype), c.out, bytes(c.count, c.dtype)};
}
Regions regions(const AllGather& c, int rank) {
  return {c.in, bytes(c.counts[rank], c.dtype), c.out, bytes(c.counts, c.dtype)};
}
Regions regions(const ReduceScatter& c, int rank) {
  return {c.in, bytes(c.counts, c.dtype), c.out, bytes(c.counts[rank], c.dtype)};
}
Regions regions(const AllToAll& c, int) {
  return {c.in, bytes(c.send_counts, c.dtype), c.out, bytes(c.recv_counts, c.dtype)};
}
Regions regions(const Broadcast& c, int rank) {
  size_t all = bytes(c.count, c.dtype);
  return rank == c.root ? Regions{c.data, all, nullptr, 0} : Regions{nullptr, 0, c.data, all};
}
Regions regions(const Send& c, int) { return {c.data, bytes(c.count, c.dtype), nullptr, 0}; }
Regions regions(const Recv& c, int) { return {nullptr, 0, c.data, bytes(c.count, c.dtype)}; }
Regions regions(const Barrier&, int) { return {}; }

template <class C>
void place(C& c, int, const void* in, void* out) {
  c.in = in, c.out = out;
}
void place(Broadcast& c, int rank, const void* in, void* out) {
  c.data = rank == c.root ? const_cast<void*>(in) : out;
}
void place(Send& c, int, const void* in, void*) { c.data = in; }
void place(Recv& c, int, const void*, void* out) { c.data = out; }
void place(Barrier&, int, const void*, void*) {}
}  // namespace

Regions regions_of(const Collective& what, int rank) {
  return std::visit([&](const auto& c) { return regions(c, rank); }, what);
}

Collective over_regions(Collective what, int rank, const void* in, void* out) {
  std::visit([&](auto& c) { place(c, rank, in, out); }, what);
  return what;
}

}  // namespace lockstep::distributed
