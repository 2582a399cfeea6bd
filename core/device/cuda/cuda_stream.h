// Streams, events and graphs of one CUDA context.
#pragma once

#include <functional>
#include <memory>

#include "core/device/cuda/driver.h"
#include "core/device/device.h"

namespace lockstep::cuda {

// A non-blocking stream of this context. Host work (run) must not call CUDA. After a work item threw, later
// host work of the stream does not run, and synchronize() rethrows the exception. If the device reports a
// fault, synchronize() throws at once, with the error kinds of check(). `first`: the stream has high
// priority. Its kernels get free multiprocessors before those of other streams, in captured work, too (from
// driver 11.7).
std::unique_ptr<Stream> make_cuda_stream(CUcontext context, bool first = false);

// Implements Device::capture in relaxed mode: libraries may allocate or load modules in `enqueue`. Host work
// that `enqueue` enqueues runs at each launch; synchronize() of the launch's stream rethrows its exceptions.
// If `enqueue` throws, the capture is ended and the exception rethrown.
std::unique_ptr<CapturedWork> capture_cuda(CUcontext context, Stream& stream,
                                           const std::function<void()>& enqueue);

inline CUstream stream_of(Stream& stream) { return static_cast<CUstream>(stream.native()); }

}  // namespace lockstep::cuda
