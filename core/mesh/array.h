// Array: this rank's part of a named tensor; LiveMesh: the mesh words with a Group per dim, which a Session
// fills.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/mesh/group.h"
#include "core/mesh/layout.h"
#include "core/mesh/state_hash.h"

namespace lockstep {

struct LiveMesh {
  Mesh words;
  int64_t rank = 0;
  std::shared_ptr<Group> world;
  std::vector<std::shared_ptr<Group>> groups;  // one per mesh dim; a size-1 dim has a group of one
  std::shared_ptr<Group> data;  // all data dims together, in data_rank order; buffers in host memory
  // The same ranks, buffers in the device's memory; null and empty where the host addresses it.
  std::shared_ptr<Group> device_data;
  std::vector<std::shared_ptr<Group>> device_groups;
  int64_t ranks_per_node = 0;  // of the world, neighbours on a host; 0: one host, or not known
  // Where gradients are exchanged inside hosts of `seats` data ranks first, then across: those of this host,
  // and those at this rank's place of each host, both in data_rank order. Else 0 and null.
  int seats = 0;
  std::shared_ptr<Group> inside, across, device_inside, device_across;

  std::vector<int64_t> coordinate() const { return words.coordinate(rank); }
  Group& group(std::string_view dim_name) const { return *groups[words.dim(dim_name)]; }
  // The group of a mesh dim, or of all data dims together (kDataDims, and a data dim that the mesh lacks
  // beside others), for buffers in the memory of `device`. UserError for an unknown name, InternalError when
  // the mesh has no groups on a device that needs them.
  Group& group_on(const Device& device, std::string_view dim_name) const;
  Group* inside_on(const Device& device) const {
    return (device.addressable() ? inside : device_inside).get();
  }
  Group* across_on(const Device& device) const {
    return (device.addressable() ? across : device_across).get();
  }
};
// The mesh of one rank: [dp_replicate=1].
LiveMesh solo_mesh();

// A named tensor on a mesh: the global type, how it is laid out, and the bytes of this rank (dense,
// row-major, of local_shape). Where the host cannot address the device that computes, there is a second copy
// on the device, and the two follow each other: fetch() before the host reads `data` or writes a part of it,
// host_wrote() after it wrote; on() gives the device's copy, device_wrote() after work of that device that
// changes it was enqueued. What is to stay out of the device's memory lives on the host: on_host().
struct Array {
  std::string fqn;
  DType dtype = DType::f32;
  Shape shape;  // global
  Layout layout;
  Shape local_shape;  // this rank's
  std::vector<Piece> pieces;
  Buffer data;  // numel(local_shape) elements, on the host; empty until materialised
  // Steps that wrote it and were applied, since its initial value. A checkpoint keeps it. Equal on all ranks.
  int64_t updates = 0;

  void fetch() const;
  void host_wrote();
  // What was written on the host is brought to the device, and the memory of the host's copy is given back.
  std::byte* on(Device& device);
  // The host's copy, from then on in memory from and to which copies of the device are fast; a copy on the
  // device, where there was one, is given up. After work that changes it was enqueued: host_wrote().
  std::byte* on_host(Device& device);
  bool lives_on_host() const { return staged_for_ != nullptr; }
  void device_wrote(Device& device);
  void device_wrote();  // the device that holds the second copy did, where there is one

  Device* device() const { return remote_ ? remote_->device : nullptr; }  // of the second copy
  // Bytes that are as they were last written: in the memory of `device`, or in the host's (null).
  struct Newest {
    Device* device = nullptr;
    const std::byte* data = nullptr;
  };
  Newest newest() const;

  uint64_t version() const { return version_; }  // counts the writes of both copies
  int64_t local_numel() const { return numel(local_shape); }
  size_t local_bytes() const { return local_numel() * size_of(dtype); }

 private:
  struct Remote {
    Device* device = nullptr;
    Buffer data;
    bool old = true, host_old = false;
  };
  std::shared_ptr<Remote> remote_;
  Device* staged_for_ = nullptr;  // whose staging memory `data` is of
  uint64_t version_ = 0;
};
// Fills local_shape and pieces for a rank, and allocates (zeroed) when `allocate`.
Array make_array(std::string fqn, DType dtype, Shape shape, Layout layout, const Mesh& mesh, int64_t rank,
                 bool allocate = true);

// True for exactly one of the ranks that hold this rank's pieces (coordinate 0 on every mesh dim on which the
// array is replicated): sums over elements, such as the state hash, count each element once.
bool is_first_replica(const Array& array, const Mesh& mesh, int64_t rank);

StateHash hash_elements(const Array& array);  // of this rank's elements
// Of a box of a tensor of this global shape, dense in `data`: what hash_elements gives for a rank that holds
// it alone.
StateHash hash_box(const std::string& fqn, DType dtype, const Shape& shape, const Box& box,
                   const std::byte* data);
// The text of the sum over the ranks. Collective.
std::string hash_of_ranks(const StateHash& mine, Group& world);
// Sum over all arrays and ranks, each element once: the same text on every layout. Collective over
// `mesh.world`.
std::string state_hash(const std::vector<const Array*>& arrays, const LiveMesh& mesh);

}  // namespace lockstep
