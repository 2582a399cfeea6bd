// Maps the verbs to NCCL calls.
#include "distributed/nccl/nccl_calls.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace lockstep::distributed {

namespace {
struct CallPlace {
  int rank, size;
  ncclComm_t comm;
  cudaStream_t stream;
  void* scratch;
};

// The type of a reduction; for pure copies, any type of the same size.
ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
    case DType::u16:
      return ncclFloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
    case DType::boolean:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return ncclUint8;
    case DType::u32:
      return ncclUint32;
    case DType::u64:
      return ncclUint64;
  }
  throw InternalError(str("no NCCL type for dtype ", static_cast<int>(dtype)));
}

ncclRedOp_t op_of(DType dtype, ReduceOp op) {
  if (dtype == DType::boolean) return op == ReduceOp::min ? ncclMin : ncclMax;
  return op == ReduceOp::sum ? ncclSum : op == ReduceOp::max ? ncclMax : ncclMin;
}

size_t n(int64_t count) { return count; }
std::byte* at(void* data, int64_t elements, DType dtype) {
  return static_cast<std::byte*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}
const std::byte* at(const void* data, int64_t elements, DType dtype) {
  return at(const_cast<void*>(data), elements, dtype);
}
bool all_equal(const std::vector<int64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts[0]; });
}
bool all_zero(const std::vector<int64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count == 0; });
}

// Keeps the first failure. The calls continue, since a started NCCL group must be ended anyway.
struct Results {
  ncclResult_t first = ncclSuccess;
  void operator()(ncclResult_t result) {
    if (first == ncclSuccess && result != ncclInProgress) first = result;
  }
};

void make(const AllReduce& c, const CallPlace& p, Results& results) {
  results(
      nccl().AllReduce(c.in, c.out, n(c.count), type_of(c.dtype), op_of(c.dtype, c.op), p.comm, p.stream));
}

void make(const AllGather& c, const CallPlace& p, Results& results) {
  if (all_equal(c.counts))
    return results(nccl().AllGather(c.in, c.out, n(c.counts[0]), type_of(c.dtype), p.comm, p.stream));
  int64_t offset = 0;
  for (int r = 0; r < p.size; ++r) {
    void* out = at(c.out, offset, c.dtype);
    if (c.counts[r] > 0)
      results(nccl().Broadcast(r == p.rank ? c.in : out, out, n(c.counts[r]), type_of(c.dtype), r, p.comm,
                               p.stream));
    offset += c.counts[r];
  }
}

void make(const ReduceScatter& c, const CallPlace& p, Results& results) {
  auto type = type_of(c.dtype);
  auto op = op_of(c.dtype, c.op);
  if (all_equal(c.counts))
    return results(nccl().ReduceScatter(c.in, c.out, n(c.counts[0]), type, op, p.comm, p.stream));
  int64_t offset = 0;
  for (int r = 0; r < p.size; ++r) {
    // Only the root's output is written.
    if (c.counts[r] > 0)
      results(nccl().Reduce(at(c.in, offset, c.dtype), c.out, n(c.counts[r]), type, op, r, p.comm, p.stream));
    offset += c.counts[r];
  }
}

void make(const AllToAll& c, const CallPlace& p, Results& results) {
  int64_t sent = 0, received = 0;
  for (int r = 0; r < p.size; ++r) {
    if (r != p.rank && c.send_counts[r] > 0)
      results(
          nccl().Send(at(c.in, sent, c.dtype), n(c.send_counts[r]), type_of(c.dtype), r, p.comm, p.stream));
    if (r != p.rank && c.recv_counts[r] > 0)
      results(nccl().Recv(at(c.out, received, c.dtype), n(c.recv_counts[r]), type_of(c.dtype), r, p.comm,
                          p.stream));
    sent += c.send_counts[r];
    received += c.recv_counts[r];
  }
}

void make(const Broadcast& c, const CallPlace& p, Results& results) {
  results(nccl().Broadcast(c.data, c.data, n(c.count), type_of(c.dtype), c.root, p.comm, p.stream));
}
void make(const Send& c, const CallPlace& p, Results& results) {
  results(nccl().Send(c.data, n(c.count), type_of(c.dtype), c.to, p.comm, p.stream));
}
void make(const Recv& c, const CallPlace& p, Results& results) {
  results(nccl().Recv(c.data, n(c.count), type_of(c.dtype), c.from, p.comm, p.stream));
}
void make(const Barrier&, const CallPlace& p, Results& results) {
  results(nccl().AllReduce(p.scratch, p.scratch, 1, ncclInt32, ncclSum, p.comm, p.stream));
}

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;
}  // namespace

void check_nccl_dtype(const Collective& what, const std::string& label) {
  std::visit(
      [&](const auto& c) {
        if constexpr (requires { c.op; })
          LS_CHECK(c.dtype != DType::u16, name(what), " \"", label,
                   "\": NCCL reduces no 16-bit integers; use u32");
      },
      what);
}

bool is_empty(const Collective& what) {
  return std::visit(
      Overloaded{[](const AllReduce& c) { return c.count == 0; },
                 [](const AllGather& c) { return all_zero(c.counts); },
                 [](const ReduceScatter& c) { return all_zero(c.counts); },
                 [](const AllToAll& c) { return all_zero(c.send_counts) && all_zero(c.recv_counts); },
                 [](const Broadcast& c) { return c.count == 0; }, [](const Send& c) { return c.count == 0; },
                 [](const Recv& c) { return c.count == 0; }, [](const Barrier&) { return false; }},
      what);
}

ncclResult_t nccl_calls(const Collective& what, int rank, int size, ncclComm_t comm, cudaStream_t stream,
                        void* scratch) {
  Results results;
  std::visit([&](const auto& c) { make(c, CallPlace{rank, size, comm, stream, scratch}, results); }, what);
  return results.first;
}

}  // namespace lockstep::distributed
