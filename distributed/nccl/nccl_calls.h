// The NCCL calls of each verb.
#pragma once

#include "core/mesh/group.h"
#include "distributed/nccl/nccl_library.h"

namespace lockstep::distributed {

// Throws InternalError for a reduction that NCCL does not support: u16. Booleans are reduced as bytes: sum
// and max are "any", min is "all".
void check_nccl_dtype(const Collective& what, const std::string& label);
// True if this rank neither sends nor receives an element. For all_to_all this may differ between ranks,
// which is harmless: a NCCL group of sends and receives involves only the pairs in it.
bool is_empty(const Collective& what);
// Makes the calls of one collective, inside a NCCL group. `scratch`: 4 bytes of device memory, for the
// barrier. Leaves out the part of an all_to_all that a rank sends to itself. Returns the first result other
// than ncclSuccess and ncclInProgress.
ncclResult_t nccl_calls(const Collective& what, int rank, int size, ncclComm_t comm, cudaStream_t stream,
                        void* scratch);

}  // namespace lockstep::distributed
