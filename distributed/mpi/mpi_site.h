// MpiSite: the order check of LOCKSTEP_VERIFY=1. Before a rank issues a collective, it sends the collective's
// site (verb, label, type, counts) to the next rank of the group and compares the one from the previous rank.
// A difference is a PeerError that names both sites, instead of a wait until the deadline.
//
// Each rank sends one message of fixed size per collective, on the group's communicator with a reserved tag,
// so the k-th message belongs to the k-th collective. If the ranks of a group start different collectives,
// two neighbours differ, and the later one reports it. Collectives of one group are issued in the order in
// which they were started, as without the check, since MPI pairs them by that order.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "core/mesh/group.h"

namespace lockstep::distributed {

// Shared by the flights of one group; only the progress thread uses it.
struct MpiOrder {
  int64_t taken = 0;   // collectives whose check has started
  int64_t issued = 0;  // collectives that were issued
};

class MpiSite {
 public:
  // The largest tag that every MPI supports; users' messages have their tag + 1
  static constexpr int kTag = 32767;

  MpiSite(std::shared_ptr<MpiOrder> order, const Collective& what, const std::string& label, int64_t number);
  void begin(MPI_Comm comm, int rank, int size);  // MPI calls
  // Returns true once the neighbour's site has arrived and is equal, and every earlier collective of the
  // group was issued; it then counts as issued. Throws PeerError for a different site. Calls MPI.
  bool may_issue(const std::string& group, int rank, int size);

 private:
  struct Message {
    uint64_t hash = 0;
    int64_t number = 0;
    char words[240] = {};  // truncated text; the hash covers all of it
  };
  std::shared_ptr<MpiOrder> order_;
  Message mine_, theirs_;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int64_t place_ = -1;
  bool here_ = false;
};

}  // namespace lockstep::distributed
