// Copies files between hosts: each file as it is saved, and missing files before a load.
#include "checkpoint/host_folders.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/place.h"
#include "checkpoint/plan/load_plan.h"
#include "core/base/log.h"
#include "core/files/checkpoint_names.h"

namespace lockstep::checkpoint {

namespace {
constexpr int64_t kBlock = int64_t{1} << 20;
}

int64_t HostFolders::of(int64_t rank) const {
  return std::upper_bound(first_.begin(), first_.end(), rank) - first_.begin() - 1;
}

int64_t HostFolders::keeper(int64_t rank) const {
  const int64_t host = of(rank), next = (host + 1) % hosts(),
                there = (next + 1 < hosts() ? first_[next + 1] : ranks_) - first_[next];
  return first_[next] + (rank - first_[host]) % there;
}

namespace {
// One end of a transfer. A storage failure is remembered; zeros are sent for bytes that cannot be read, and
// the checksums detect them.
class PassageEnd {
 public:
  PassageEnd(const Passage& passage, int index, int rank, Storage& storage)
      : passage_(passage),
        index_(index),
        sends_(passage.from == rank),
        block_(std::min(kBlock, passage.bytes)) {
    keep([&] {
      if (sends_)
        in_ = storage.open(passage.path);
      else
        out_ = storage.create(passage.path);
    });
  }
  int64_t blocks() const { return (passage_.bytes + kBlock - 1) / kBlock; }
  std::shared_ptr<Work> start(int64_t block, Group& world, Stream& stream) {
    const int64_t at = block * kBlock, bytes = std::min(kBlock, passage_.bytes - at);
    if (!sends_)
      return world.start(Recv{block_.data(), bytes, DType::u8, passage_.from, index_}, "copy of a checkpoint",
                         stream);
    keep([&] {
      if (in_) in_->read(at, block_.data(), static_cast<size_t>(bytes));
    });
    return world.start(Send{block_.data(), bytes, DType::u8, passage_.to, index_}, "copy of a checkpoint",
                       stream);
  }
  void arrived(int64_t block) {
    const int64_t bytes = std::min(kBlock, passage_.bytes - block * kBlock);
    keep([&] {
      if (out_ && failure_.verdict == Verdict::ok) out_->write(block_.data(), static_cast<size_t>(bytes));
    });
  }
  WorkOutcome end() {
    keep([&] {
      if (out_) out_->sync(), out_->close();
    });
    return failure_;
  }

 private:
  void keep(const std::function<void()>& work) {
    const WorkOutcome outcome = attempt_save(work);
    if (failure_.verdict == Verdict::ok) failure_ = outcome;
  }
  const Passage& passage_;
  const int index_;
  const bool sends_;
  std::vector<std::byte> block_;
  std::unique_ptr<InFile> in_;
  std::unique_ptr<OutFile> out_;
  WorkOutcome failure_;
};
}  // namespace

WorkOutcome pass_files(Group& world, Storage& storage, const std::vector<Passage>& passages) {
  std::vector<std::unique_ptr<PassageEnd>> ends;
  int64_t blocks = 0;
  for (size_t i = 0; i < passages.size(); ++i)
    if (passages[i].from == world.rank() || passages[i].to == world.rank()) {
      ends.push_back(std::make_unique<PassageEnd>(passages[i], static_cast<int>(i), world.rank(), storage));
      blocks = std::max(blocks, ends.back()->blocks());
    }
  // All files advance one block per round, so that each pair of ranks has the same sequence of messages. A
  // failed end still sends or receives, and its peer does not wait in vain.
  const auto stream = inline_stream();
  for (int64_t block = 0; block < blocks; ++block) {
    std::vector<std::shared_ptr<Work>> works;
    for (auto& end : ends)
      if (block < end->blocks()) works.push_back(end->start(block, world, *stream));
    for (auto& work : works) work->wait(*stream);
    for (auto& end : ends)
      if (block < end->blocks()) end->arrived(block);
  }
  WorkOutcome out;
  for (auto& end : ends)
    if (const WorkOutcome one = end->end(); out.verdict == Verdict::ok) out = one;
  return out;
}

void remove_others(Storage& storage, const std::string& dir, const std::string& name) {
  for (const auto& entry : storage.list(dir)) {
    if (!entry.folder || entry.name == name || !is_step_folder(entry.name)) continue;
    const std::string path = dir + "/" + entry.name, going = path + ".tmp";
    const bool renamed = !path.ends_with(".tmp") && !storage.exists(going);
    if (renamed) storage.rename(path, going);  // so no reader sees it half removed
    remove_step(storage, renamed ? going : path);
  }
}

namespace {
// The files of a step that a host has.
struct Part {
  int64_t step = 0;
  std::string state, path;  // state: its hash and mesh, which distinguish the files of two saves
  std::set<std::string> files;
};

std::vector<Part> parts_of(Storage& storage, const std::string& dir) {
  std::vector<Part> out;
  for (const auto& folder : scan(storage, dir)) {
    if (!folder.manifest || folder.name != step_name(folder.step)) continue;
    Part part{
        folder.step, str(folder.manifest->state_hash, " ", text(folder.manifest->mesh)), folder.path, {}};
    for (const auto& file : folder.manifest->files) try {
        if (storage.open(folder.path + "/" + file.name)->bytes() == file.bytes) part.files.insert(file.name);
      } catch (const StorageError&) {}  // it does not exist
    out.push_back(std::move(part));
  }
  return out;
}

std::string parts_text(const std::vector<Part>& parts) {
  Json out = Json::array();
  for (const auto& part : parts) out.push_back({part.step, part.state, part.path, part.files});
  return out.dump();
}
std::vector<Part> parse_parts(const std::string& text) {
  std::vector<Part> out;
  if (text.empty()) return out;
  for (const auto& row : Json::parse(text)) out.push_back({row.at(0), row.at(1), row.at(2), row.at(3)});
  return out;
}

class Gathering {
 public:
  Gathering(const std::string& dir, const HostFolders& hosts, Group& world, Storage& storage)
      : dir_(dir), hosts_(hosts), world_(world), storage_(storage), lead_(hosts.leads(world.rank())) {}

  int64_t run(const std::vector<Array*>& arrays) {
    std::string mine;
    look([&] { mine = parts_text(parts_of(storage_, dir_)); });
    const auto texts = all_gather_text(world_, mine);
    for (int64_t host = 0; host < hosts_.hosts(); ++host)
      parts_.push_back(parse_parts(texts[hosts_.first(host)]));
    const int64_t step = choose() ? complete(arrays) : -1;
    const std::string kept = step < 0 ? "" : step_name(step);
    look([&] { remove_others(storage_, dir_, kept); });
    return step;
  }

 private:
  // Runs on the first rank of each host if it has a folder. After a failure the host counts as having no
  // files.
  void look(const std::function<void()>& work) {
    if (!lead_) return;
    const WorkOutcome outcome = attempt([&] {
      if (storage_.exists(dir_)) work();
    });
    if (outcome.verdict != Verdict::ok) logs::warn(str("checkpoints in memory: ", outcome.text));
  }

  const Part* part(int64_t host) const {
    for (const auto& one : parts_[host])
      if (one.step == step_ && one.state == state_) return &one;
    return nullptr;
  }
  int64_t first_with(const std::string& file) const {
    for (int64_t host = 0; host < hosts_.hosts(); ++host)
      if (const Part* one = part(host); one && one->files.count(file)) return host;
    return -1;
  }

  // The newest step that the hosts have completely between them, and its manifest.
  bool choose() {
    std::set<std::pair<int64_t, std::string>> steps;
    for (const auto& host : parts_)
      for (const auto& one : host) steps.insert({one.step, one.state});
    for (auto it = steps.rbegin(); it != steps.rend(); ++it) {
      step_ = it->first, state_ = it->second;
      int64_t source = 0;
      while (!part(source)) ++source;
      std::string found;
      const std::string path = part(source)->path;
      if (world_.rank() == hosts_.first(source)) look([&] { found = load_manifest_text(storage_, path); });
      text_ = broadcast_text(world_, found, static_cast<int>(hosts_.first(source)));
      const WorkOutcome whole = attempt([&] {
        manifest_ = read_manifest_text(text_, path);
        for (const auto& file : manifest_.files)
          if (first_with(file.name) < 0)
            throw DamagedError(str("step ", step_, " is not whole: no host that is left has ", file.name));
      });
      if (whole.verdict == Verdict::ok) return true;
      if (world_.rank() == 0) logs::warn(str("checkpoints in memory: ", whole.text));
    }
    return false;
  }

  std::vector<std::set<std::string>> needed(const std::vector<Array*>& arrays) {
    Json mine = Json::array();
    attempt([&] {  // the load itself reports what does not fit
      for (const auto& read : plan_load(manifest_, arrays)) mine.push_back(read.chunk->file);
    });
    const auto texts = all_gather_text(world_, mine.dump());
    std::vector<std::set<std::string>> out(hosts_.hosts());
    for (int rank = 0; rank < world_.size(); ++rank)
      for (const auto& file : Json::parse(texts[rank])) out[hosts_.of(rank)].insert(file.get<std::string>());
    return out;
  }

  int64_t complete(const std::vector<Array*>& arrays) {
    const std::string folder = dir_ + "/" + step_name(step_);
    const auto wanted = needed(arrays);
    const bool new_here = lead_ && !part(hosts_.of(world_.rank()));
    WorkOutcome made = settle(world_, !new_here ? WorkOutcome{} : attempt_save([&] {
                                if (storage_.exists(folder)) remove_step(storage_, folder);
                                storage_.make_folders(folder);
                                write_text(storage_, folder + "/" + kManifestName, text_);
                              }));
    if (made.verdict == Verdict::ok) {
      std::vector<Passage> passages;
      for (const auto& file : manifest_.files)
        for (int64_t host = 0; host < hosts_.hosts(); ++host)
          if (wanted[host].count(file.name) && !(part(host) && part(host)->files.count(file.name)))
            passages.push_back({folder + "/" + file.name, file.bytes,
                                static_cast<int>(hosts_.first(first_with(file.name))),
                                static_cast<int>(hosts_.first(host))});
      made = settle(world_, pass_files(world_, storage_, passages));
    }
    if (made.verdict == Verdict::ok) return step_;
    if (world_.rank() == 0)
      logs::warn(str("checkpoints in memory: step ", step_, " is not used: ", made.text));
    return -1;
  }

  const std::string& dir_;
  const HostFolders& hosts_;
  Group& world_;
  Storage& storage_;
  const bool lead_;
  std::vector<std::vector<Part>> parts_;  // by host
  int64_t step_ = -1;
  std::string state_, text_;
  Manifest manifest_;
};
}  // namespace

int64_t gather_newest(const std::string& dir, const HostFolders& hosts, const std::vector<Array*>& arrays,
                      Group& world, Storage& storage) {
  return Gathering(dir, hosts, world, storage).run(arrays);
}

}  // namespace lockstep::checkpoint
