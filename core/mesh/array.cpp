// Keeps the two copies of an array, host and device, consistent.
#include "core/mesh/array.h"

#include <cstring>

#include "core/base/error.h"

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
  LS_CHECK(remote_->device == &device, fqn, " is on another device");
  if (remote_->old) {
    copy_to_device(device, remote_->data.data(), data.data(), local_bytes());
    if (!lives_on_host() && data.forget()) remote_->host_old = true;
  }
  remote_->old = false;
  return remote_->data.data();
}
std::byte* Array::on_host(Device& device) {
  LS_CHECK(data, fqn, " is not allocated");
  fetch();
  if (staged_for_ != &device) {
    remote_.reset();
    if (!device.addressable()) {
      Buffer staged(local_bytes(), device.staging());
      if (version_ > 0) std::memcpy(staged.data(), data.data(), local_bytes());
      data = std::move(staged);
    }
    staged_for_ = &device;
  }
  return data.data();
}
void Array::device_wrote(Device& device) {
  if (device.addressable()) return host_wrote();  // it wrote `data`
  ++version_;
  if (remote_) remote_->host_old = true;
}
Array::Newest Array::newest() const {
  const bool there = remote_ && !remote_->old && (remote_->host_old || remote_->device->content_sums());
  return there ? Newest{remote_->device, remote_->data.data()} : Newest{nullptr, data.data()};
}
void Array::device_wrote() { remote_ ? device_wrote(*remote_->device) : host_wrote(); }

bool is_first_replica(const Array& array, const Mesh& mesh, int64_t rank) {
  auto at = mesh.coordinate(rank);
  for (int d = 0; d < mesh.ndim(); ++d)
    if (array.layout.on(d).kind != Placement::Kind::shard && at[d] != 0) return false;
  return true;
}

}  // namespace lockstep
