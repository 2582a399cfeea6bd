// The facade: copies in, the collective on a stream of the device, copies out.
#include "tests/conformance/over_device.h"

#include <mutex>
#include <vector>

#include "core/base/error.h"
#include "distributed/regions.h"

namespace lockstep::conformance {

namespace {
// Buffers are used again and never given back while collectives are in flight: a device's allocator may wait
// for all that runs on it.
class Pool {
 public:
  explicit Pool(Device& device) : device_(device) {}
  std::shared_ptr<Buffer> take(size_t bytes) {
    size_t size = 4096;
    while (size < bytes) size *= 2;
    std::lock_guard lock(mutex_);
    for (auto& buffer : all_)
      if (buffer->bytes() == size && buffer.use_count() == 1) return buffer;
    return all_.emplace_back(std::make_shared<Buffer>(size, device_.memory()));
  }

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Buffer>> all_;
};

struct Landing {
  distributed::Regions host;
  std::shared_ptr<Buffer> in, out;
  std::mutex mutex;
  std::shared_ptr<Work> work;
};

class LandingWork : public Work {
 public:
  LandingWork(Device& device, std::shared_ptr<Group> inner, std::shared_ptr<Stream> on,
              std::shared_ptr<Landing> landing)
      : device_(device), inner_(std::move(inner)), on_(std::move(on)), landing_(std::move(landing)) {}
  bool done() override {
    std::lock_guard lock(landing_->mutex);
    return landing_->work && landing_->work->done();
  }
  void wait(Stream& stream) override {
    stream.run([&device = device_, inner = inner_, on = on_, landing = landing_] {
      device.enter();
      landing->work->wait(*on);
      Group* group = inner.get();
      auto end = on->record();
      wait_on_host(*end, std::span(&group, 1));
      copy_to_host(device, landing->host.out, landing->out->data(), landing->host.out_bytes);
      landing->in.reset(), landing->out.reset();
    });
  }

 private:
  Device& device_;
  std::shared_ptr<Group> inner_;
  std::shared_ptr<Stream> on_;
  std::shared_ptr<Landing> landing_;
};

class OverDevice : public Group {
 public:
  OverDevice(Device& device, std::shared_ptr<Group> inner)
      : device_(device), inner_(std::move(inner)), on_(device.make_stream()), pool_(device) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) override {
    auto landing = std::make_shared<Landing>();
    stream.run([this, what, label, landing] { depart(what, label, *landing); });
    return std::make_shared<LandingWork>(device_, inner_, on_, landing);
  }

 private:
  void depart(const Collective& what, const std::string& label, Landing& landing) {
    device_.enter();
    landing.host = distributed::regions_of(what, rank());
    const distributed::Regions& host = landing.host;
    landing.out = pool_.take(host.out_bytes);
    std::vector<std::byte> poison(host.out_bytes, std::byte{0xA7});
    copy_to_device(device_, landing.out->data(), poison.data(), poison.size());
    auto from = static_cast<const std::byte*>(host.in);
    auto to = static_cast<const std::byte*>(host.out);
    std::byte* in = nullptr;
    if (to && from >= to && from + host.in_bytes <= to + host.out_bytes) {
      in = landing.out->data() + (from - to);  // in place
    } else {
      landing.in = pool_.take(host.in_bytes);
      in = landing.in->data();
    }
    copy_to_device(device_, in, from, host.in_bytes);
    auto work = inner_->start(distributed::over_regions(what, rank(), in, landing.out->data()), label, *on_);
    std::lock_guard lock(landing.mutex);
    landing.work = std::move(work);
  }
  Device& device_;
  std::shared_ptr<Group> inner_;
  std::shared_ptr<Stream> on_;  // one for all, so that all ranks start in the same order
  Pool pool_;
};
}  // namespace

std::shared_ptr<Group> over_device(Device& device, std::shared_ptr<Group> inner) {
  return std::make_shared<OverDevice>(device, std::move(inner));
}

}  // namespace lockstep::conformance
