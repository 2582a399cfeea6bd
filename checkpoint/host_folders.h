// Checkpoints that no storage holds alone: each host has a folder of its own, with the files of its ranks and
// copies of those of the host before it, so that a host that is lost takes no file with it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/agreement.h"
#include "checkpoint/storage/storage.h"
#include "core/mesh/array.h"

namespace lockstep::checkpoint {

// Which ranks are on which host: neighbours.
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
  // Whether the file of `rank`, or its copy, lies on `host`.
  bool holds(int64_t host, int64_t rank) const { return of(rank) == host || of(keeper(rank)) == host; }

 private:
  std::vector<int64_t> first_;
  int64_t ranks_;
};

// A file on its way from one rank's storage to another's, under its path on both. All ranks have the same
// list.
struct Passage {
  std::string path;
  int64_t bytes = 0;
  int from = 0, to = 0;
};
// Sends and receives what this rank has part in, in blocks; several files are on their way at once. What
// failed here: the others are not kept waiting by it, and it is to be settled. Collective.
WorkOutcome pass_files(Group& world, Storage& storage, const std::vector<Passage>& passages);

// Before a load from `dir`: of the newest step whose files the hosts hold together, each host gets those that
// the arrays of its ranks need; what else its folder holds is removed. Its step, -1 where there is none, with
// a warning where there were some. Collective.
int64_t gather_newest(const std::string& dir, const HostFolders& hosts, const std::vector<Array*>& arrays,
                      Group& world, Storage& storage);

// Removes the step folders of `dir` but this one ("": all).
void remove_others(Storage& storage, const std::string& dir, const std::string& name);

}  // namespace lockstep::checkpoint
