// Streams, events and graphs of one CUDA context.
#pragma once

#include <functional>
#include <memory>

#include "core/device/cuda/driver.h"
#include "core/device/device.h"

namespace lockstep::cuda {

// A non-blocking stream of this context. Host work (run) must not call CUDA; after a work item threw, later
// host work of the stream does not run, and synchronize() rethrows what it threw. synchronize() returns as
// soon as the device reports a fault, as the kind of check(). `first`: its kernels get the multiprocessors
// that become free before those of other streams, in captured work, too (from driver 11.7).
std::unique_ptr<Stream> make_cuda_stream(CUcontext context, bool first = false);

// Device::capture. Relaxed mode: libraries may allocate or load modules in `enqueue`. Host work that
// `enqueue` enqueues runs at each launch, and what it throws is rethrown by synchronize() of the stream of
// that launch. Rethrows what `enqueue` throws, the capture ended.
std::unique_ptr<CapturedWork> capture_cuda(CUcontext context, Stream& stream,
                                           const std::function<void()>& enqueue);

inline CUstream stream_of(Stream& stream) { return static_cast<CUstream>(stream.native()); }

}  // namespace lockstep::cuda
