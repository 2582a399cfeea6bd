// Records marks before and after each wait and keeps them until the next step is enqueued.
#include "core/mesh/exposed.h"

#include <mutex>

#include "core/mesh/timed_work.h"

namespace lockstep {

struct ExposedTime::Waits {
  struct Wait {
    std::string name, label;
    std::shared_ptr<Mark> before, after;
  };
  std::mutex mutex;
  std::vector<std::string> names;
  std::vector<Wait> waits;

  void around(const std::string& name, const std::string& label, Work& work, Stream& stream) {
    auto before = stream.mark();
    work.wait(stream);
    auto after = stream.mark();
    std::lock_guard lock(mutex);
    waits.push_back({name, label, std::move(before), std::move(after)});
  }

  // Forwards all calls to another group and measures the waits.
  class MeasuredGroup : public Group {
   public:
    MeasuredGroup(std::shared_ptr<Group> group, std::string name, std::shared_ptr<Waits> waits)
        : group_(std::move(group)), name_(std::move(name)), waits_(std::move(waits)) {}
    int rank() const override { return group_->rank(); }
    int size() const override { return group_->size(); }
    const std::string& name() const override { return group_->name(); }
    std::shared_ptr<Work> start(const Collective& what, const std::string& label, Stream& stream) override {
      return std::make_shared<MeasuredWork>(group_->start(what, label, stream), name_, label, waits_);
    }
    bool capturable() const override { return group_->capturable(); }
    void check() override { group_->check(); }
    void note_launch(const std::string& label, Stream& stream) override {
      group_->note_launch(label, stream);
    }
    double deadline() const override { return group_->deadline(); }
    double own_deadline() const override { return group_->own_deadline(); }

   private:
    class MeasuredWork : public TimedWork {
     public:
      MeasuredWork(std::shared_ptr<Work> work, std::string name, std::string label,
                   std::shared_ptr<Waits> waits)
          : work_(std::move(work)),
            name_(std::move(name)),
            label_(std::move(label)),
            waits_(std::move(waits)) {}
      bool done() override { return work_->done(); }
      void wait(Stream& stream) override { waits_->around(name_, label_, *work_, stream); }
      std::shared_ptr<Mark> mark_end() override {
        auto* timed = dynamic_cast<TimedWork*>(work_.get());
        return timed ? timed->mark_end() : nullptr;
      }

     private:
      std::shared_ptr<Work> work_;
      std::string name_, label_;
      std::shared_ptr<Waits> waits_;
    };
    std::shared_ptr<Group> group_;
    std::string name_;
    std::shared_ptr<Waits> waits_;
  };
};

ExposedTime::ExposedTime() : waits_(std::make_shared<Waits>()) {}
ExposedTime::~ExposedTime() = default;

LiveMesh ExposedTime::measured(const LiveMesh& mesh, const Device& device) {
  LiveMesh out = mesh;
  std::map<Group*, std::shared_ptr<Group>> made;
  auto replace = [&](std::shared_ptr<Group>& group, const std::string& name) {
    if (!group || group->size() == 1) return;
    auto& one = made[group.get()];
    if (!one) {
      one = std::make_shared<Waits::MeasuredGroup>(group, name, waits_);
      waits_->names.push_back(name);
    }
    group = one;
  };
  auto& groups = device.addressable() ? out.groups : out.device_groups;
  for (size_t d = 0; d < groups.size(); ++d) replace(groups[d], mesh.words.dim_names[d]);
  replace(device.addressable() ? out.data : out.device_data, std::string(kDataDims));
  replace(device.addressable() ? out.inside : out.device_inside, "inside_hosts");
  replace(device.addressable() ? out.across : out.device_across, "across_hosts");
  return out;
}

void ExposedTime::begin() {
  std::lock_guard lock(waits_->mutex);
  waits_->waits.clear();
}

std::map<std::string, double> ExposedTime::seconds() const {
  std::lock_guard lock(waits_->mutex);
  std::map<std::string, double> out;
  for (const auto& name : waits_->names) out[name] = 0;
  for (const auto& wait : waits_->waits) out[wait.name] += wait.after->seconds_after(*wait.before);
  return out;
}

std::vector<std::pair<std::string, double>> ExposedTime::waits() const {
  std::lock_guard lock(waits_->mutex);
  std::vector<std::pair<std::string, double>> out;
  for (const auto& wait : waits_->waits)
    out.emplace_back(wait.label, wait.after->seconds_after(*wait.before));
  return out;
}

}  // namespace lockstep
