// The check of order under LOCKSTEP_VERIFY=1: before a collective is issued, its site goes to the next rank
// of the group and is compared with that of the rank before. A difference is a PeerError that names both,
// instead of a wait for the deadline.
//
// Each rank sends one message of fixed size per collective, on the group's own communicator under a tag of
// its own, so the k-th message is that of the k-th collective. Where not all ranks of a group start the same,
// two neighbours differ, and the later of them says so. Collectives of one group are issued in the order in
// which they were started, as without the check, since MPI pairs them by that order.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "core/mesh/group.h"

namespace lockstep::distributed {

// Shared by the flights of one group; used by the progress thread alone.
struct MpiOrder {
  int64_t taken = 0;   // collectives whose check has begun
  int64_t issued = 0;  // collectives that were issued
};

class MpiSite {
 public:
  static constexpr int kTag = 32767;  // the largest that every MPI has; messages of users have their tag + 1

  MpiSite(std::shared_ptr<MpiOrder> order, const Collective& what, const std::string& label, int64_t number);
  void begin(MPI_Comm comm, int rank, int size);  // MPI calls
  // True once the neighbour's site is here, equal to this one, and every earlier collective of the group was
  // issued; it then counts as issued. PeerError for another site. MPI calls.
  bool may_issue(const std::string& group, int rank, int size);

 private:
  struct Message {
    uint64_t hash = 0;
    int64_t number = 0;
    char words[240] = {};  // cut when longer; the hash covers all
  };
  std::shared_ptr<MpiOrder> order_;
  Message mine_, theirs_;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int64_t place_ = -1;
  bool here_ = false;
};

}  // namespace lockstep::distributed
