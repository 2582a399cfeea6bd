// StagedGroup: collectives of device memory through host memory; and the group of one rank on a device.
#include "distributed/staged_group.h"

#include <mutex>

#include "core/base/error.h"
#include "distributed/regions.h"

namespace lockstep::distributed {

namespace {

// A staged collective: its two host buffers and the host group's Work, shared by its items on streams.
struct StagedFlight {
  std::shared_ptr<Group> host;
  std::string label;
  Collective what;
  Regions remote;  // on the device
  Buffer in, out;  // on the host
  std::mutex mutex;
  std::shared_ptr<Work> work;  // null until the stream reaches it

  void start_on_host() {
    auto stream = inline_stream();
    auto started = host->start(over_regions(what, host->rank(), in.data(), out.data()), label, *stream);
    std::lock_guard lock(mutex);
    work = std::move(started);
  }
  std::shared_ptr<Work> started() {
    std::lock_guard lock(mutex);
    return work;
  }
};

class StagedWork : public Work {
 public:
  StagedWork(Device& device, std::shared_ptr<StagedFlight> flight, std::shared_ptr<Event> enqueued)
      : device_(device), flight_(std::move(flight)), enqueued_(std::move(enqueued)) {}
  bool done() override {
    auto work = flight_->started();
    return work && work->done();
  }
  void wait(Stream& stream) override {
    device_.enter();
    stream.wait(enqueued_);
    stream.run([flight = flight_] {
      auto work = flight->started();
      LS_CHECK(work, "the host part of \"", flight->label,
               "\" was not started; the stream it was started on has failed");
      auto here = inline_stream();
      work->wait(*here);
    });
    device_.copy(flight_->remote.out, flight_->out.data(), flight_->remote.out_bytes, stream);
    stream.run([flight = flight_] {});  // keeps the host buffers alive until the copy has completed
  }

 private:
  Device& device_;
  std::shared_ptr<StagedFlight> flight_;
  std::shared_ptr<Event> enqueued_;
};

class StagedGroup : public Group {
 public:
  StagedGroup(Device& device, std::shared_ptr<Group> host) : device_(device), host_(std::move(host)) {}
  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  const std::string& name() const override { return host_->name(); }
  double deadline() const override { return host_->deadline(); }
  double own_deadline() const override { return host_->own_deadline(); }
  void check() override { host_->check(); }
  std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) override {
    check_collective(what, rank(), size());
    device_.enter();
    auto flight = std::make_shared<StagedFlight>();
    flight->host = host_, flight->label = label, flight->what = what,
    flight->remote = regions_of(what, rank());
    flight->in = Buffer(flight->remote.in_bytes, device_.staging());
    flight->out = Buffer(flight->remote.out_bytes, device_.staging());
    device_.copy(flight->in.data(), flight->remote.in, flight->remote.in_bytes, stream);
    stream.run([flight] { flight->start_on_host(); });
    return std::make_shared<StagedWork>(device_, flight, stream.record());
  }

 private:
  Device& device_;
  std::shared_ptr<Group> host_;
};

class CopiedWork : public Work {
 public:
  explicit CopiedWork(std::shared_ptr<Event> end) : end_(std::move(end)) {}
  bool done() override { return end_->done(); }
  void wait(Stream& stream) override { stream.wait(end_); }

 private:
  std::shared_ptr<Event> end_;
};

class SoloDeviceGroup : public Group {
 public:
  SoloDeviceGroup(Device& device, std::string name) : device_(device), name_(std::move(name)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& name() const override { return name_; }
  bool capturable() const override { return true; }
  std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) override {
    check_collective(what, 0, 1);
    LS_CHECK(!std::holds_alternative<Send>(what) && !std::holds_alternative<Recv>(what), lockstep::name(what),
             " \"", label, "\" in a group of one rank");
    device_.enter();
    Regions regions = regions_of(what, 0);
    if (!std::holds_alternative<Broadcast>(what)) {
      LS_CHECK(regions.in_bytes == regions.out_bytes, lockstep::name(what), " \"", label, "\" reads ",
               regions.in_bytes, " bytes and writes ", regions.out_bytes, " in a group of one rank");
      if (regions.out != regions.in && regions.in_bytes > 0)
        device_.copy(regions.out, regions.in, regions.in_bytes, stream);
    }
    return std::make_shared<CopiedWork>(stream.record());
  }

 private:
  Device& device_;
  std::string name_;
};
}  // namespace

std::shared_ptr<Group> staged_group(Device& device, std::shared_ptr<Group> host) {
  return std::make_shared<StagedGroup>(device, std::move(host));
}
std::shared_ptr<Group> solo_device_group(Device& device, const std::string& name) {
  return std::make_shared<SoloDeviceGroup>(device, name);
}

}  // namespace lockstep::distributed
