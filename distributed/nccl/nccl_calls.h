// The NCCL calls of each verb.
#pragma once

#include "core/mesh/group.h"
#include "distributed/nccl/nccl_library.h"

namespace lockstep::distributed {

// InternalError for a reduction that NCCL does not have: u16. Truths are reduced as bytes: sum and max are
// "any", min is "all".
void check_nccl_dtype(const Collective& what, const std::string& label);
// True when this rank neither sends nor receives an element. For all_to_all it may differ between ranks,
// which is no matter: NCCL's groups of sends and receives know only the pairs that are in them.
bool is_empty(const Collective& what);
// The calls of one collective, inside a group of NCCL's. `scratch`: 4 bytes of the device, for the barrier.
// The part of an all_to_all that a rank sends to itself is not sent. Returns the first result that is not
// ncclSuccess or ncclInProgress.
ncclResult_t nccl_calls(const Collective& what, int rank, int size, ncclComm_t comm, cudaStream_t stream,
                        void* scratch);

}  // namespace lockstep::distributed
