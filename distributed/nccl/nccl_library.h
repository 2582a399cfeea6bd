// Opens NCCL at run time, so that the same program starts on a machine without it.
#pragma once

#include <nccl.h>

#include <initializer_list>
#include <string>

namespace lockstep::distributed {

// Entry points of libnccl.so.2 that Lockstep calls, by their names without "nccl".
struct Nccl {
  // clang-format off
#define LS_NCCL(X) \
  X(GetVersion) X(GetUniqueId) X(GetErrorString) X(GetLastError) X(CommInitRankConfig) X(CommSplit) \
  X(CommFinalize) X(CommDestroy) X(CommAbort) X(CommGetAsyncError) X(CommCount) X(CommUserRank) \
  X(GroupStart) X(GroupEnd) X(AllReduce) X(Broadcast) X(Reduce) X(AllGather) X(ReduceScatter) X(Send) \
  X(Recv)
// clang-format on
#define LS_NCCL_DECLARE(name) decltype(&::nccl##name) name = nullptr;
  LS_NCCL(LS_NCCL_DECLARE)
#undef LS_NCCL_DECLARE
  int version = 0;  // 22809 = 2.28.9
};

// The library's table, opened on the first call. First sets NCCL_NVLS_ENABLE=0 in the environment of the
// process, overriding any other value: NVLink multicast stays off. Throws UserError if there is no NCCL, or
// one older than 2.18 (no split).
const Nccl& nccl();
// The same, from the first of these names that can be opened; the result is not cached.
Nccl open_nccl(std::initializer_list<const char*> names);
std::string nccl_version();  // "2.28.9". UserError as nccl()
// Whether nccl() would succeed; else `why` is its error. Never throws.
bool nccl_available(std::string* why = nullptr);

}  // namespace lockstep::distributed
