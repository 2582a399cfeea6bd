// Checkpoints spread over hosts: each host has its own folder, with the files of its ranks and copies of
// those of the previous host, so that losing one host loses no file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/agreement.h"
#include "checkpoint/storage/storage.h"
#include "core/mesh/array.h"

namespace lockstep::checkpoint {

// Which ranks are on which host. Ranks of a host are consecutive.
class HostFolders {
 public:
  // `first`: the first rank of each host, ascending, from 0; two hosts or more.
  HostFolders(std::vector<int64_t> first, int64_t ranks) : first_(std::move(first)), ranks_(ranks) {}
  int64_t hosts() const { return static_cast<int64_t>(first_.size()); }
  int64_t of(int64_t rank) const;
  int64_t first(int64_t host) const { return first_[host]; }
  bool leads(int64_t rank) const { return first_[of(rank)] == rank; }
  // The rank of the next host that writes the copy of this rank's file.
  int64_t keeper(int64_t rank) const;
  // Whether the file of `rank`, or its copy, is on `host`.
  bool holds(int64_t host, int64_t rank) const { return of(rank) == host || of(keeper(rank)) == host; }

 private:
  std::vector<int64_t> first_;
  int64_t ranks_;
};

// A file to be copied from one rank's storage to another's, under the same path. All ranks have the same
// list.
struct Passage {
  std::string path;
  int64_t bytes = 0;
  int from = 0, to = 0;
};
// Sends and receives this rank's files in blocks, several files at a time. Returns the local outcome, which
// the caller must settle over the ranks: a failure does not keep the others waiting. Collective.
WorkOutcome pass_files(Group& world, Storage& storage, const std::vector<Passage>& passages);

// Before a load from `dir`: takes the newest step whose files the hosts have between them, copies to each
// host the files that its ranks' arrays need, and removes everything else in its folder. Returns the step; -1
// when no step is complete, with a warning when there were any. Collective.
int64_t gather_newest(const std::string& dir, const HostFolders& hosts, const std::vector<Array*>& arrays,
                      Group& world, Storage& storage);

// Removes all step folders of `dir` except this one ("": all).
void remove_others(Storage& storage, const std::string& dir, const std::string& name);

}  // namespace lockstep::checkpoint
