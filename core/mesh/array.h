// Array: this rank's part of a named tensor. LiveMesh: the mesh with a Group per dim, which a Session fills.
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
  // The same ranks with buffers in device memory; null and empty if the host addresses that memory.
  std::shared_ptr<Group> device_data;
  std::vector<std::shared_ptr<Group>> device_groups;
  int64_t ranks_per_node = 0;  // ranks of the world per host, neighbours in order; 0: one host, or unknown
  // Set if gradients are exchanged inside hosts first and then across hosts: `seats` is the number of data
  // ranks per host. `inside` has the data ranks of this host. `across` has the ranks at this rank's index on
  // each host. Both are in data_rank order. Otherwise 0 and null.
  int seats = 0;
  std::shared_ptr<Group> inside, across, device_inside, device_across;

  std::vector<int64_t> coordinate() const { return words.coordinate(rank); }
  Group& group(std::string_view dim_name) const { return *groups[words.dim(dim_name)]; }
  // The group of a mesh dim for buffers in the memory of `device`. kDataDims means all data dims together,
  // and so does a data dim that the mesh lacks. Throws UserError for an unknown name, InternalError if the
  // mesh has no groups on a device that needs them.
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

// A named tensor on a mesh: its global type, its layout, and the bytes of this rank (dense, row-major, of
// local_shape). If the host cannot address the device that computes, the device has a second copy, and these
// calls keep the two equal. Call fetch() (copy from the device) before the host reads `data` or writes a part
// of it, and host_wrote() after it wrote. on() returns the device's copy; call device_wrote() after enqueuing
// device work that changes it. on_host() keeps a tensor out of device memory.
struct Array {
  std::string fqn;
  DType dtype = DType::f32;
  Shape shape;  // global
  Layout layout;
  Shape local_shape;  // this rank's
  std::vector<Piece> pieces;
  Buffer data;  // numel(local_shape) elements, on the host; empty until materialised
  // The number of applied steps that wrote this tensor since its initial value. Checkpoints save it. Equal on
  // all ranks.
  int64_t updates = 0;

  void fetch() const;
  void host_wrote();
  // Copies host writes to the device and frees the host's copy.
  std::byte* on(Device& device);
  // Returns the host's copy, which is from then on in staging memory (fast to copy to and from the device).
  // Drops a copy on the device. Call host_wrote() after enqueuing work that changes it.
  std::byte* on_host(Device& device);
  bool lives_on_host() const { return staged_for_ != nullptr; }
  void device_wrote(Device& device);
  void device_wrote();  // on the device that holds the second copy, if there is one

  Device* device() const { return remote_ ? remote_->device : nullptr; }  // the device of the second copy
  // The most recently written copy: in the memory of `device`, or in host memory (null).
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
  Device* staged_for_ = nullptr;  // the device whose staging memory holds `data`
  uint64_t version_ = 0;
};
// Computes local_shape and pieces for a rank; allocates zeroed memory if `allocate`.
Array make_array(std::string fqn, DType dtype, Shape shape, Layout layout, const Mesh& mesh, int64_t rank,
                 bool allocate = true);

// True for exactly one of the ranks that hold this rank's pieces: the one with coordinate 0 on every mesh dim
// on which the array is replicated. Sums over elements, such as the state hash, count each element once this
// way.
bool is_first_replica(const Array& array, const Mesh& mesh, int64_t rank);

StateHash hash_elements(const Array& array);  // of this rank's elements
// The hash of a box of a tensor of this global shape, dense in `data`: the same as hash_elements for a rank
// that holds only this box.
StateHash hash_box(const std::string& fqn, DType dtype, const Shape& shape, const Box& box,
                   const std::byte* data);
// The text of the sum over all ranks. Collective.
std::string hash_of_ranks(const StateHash& mine, Group& world);
// Sum over all arrays and ranks, each element once: the same text on every layout. Collective over
// `mesh.world`.
std::string state_hash(const std::vector<const Array*>& arrays, const LiveMesh& mesh);

}  // namespace lockstep
