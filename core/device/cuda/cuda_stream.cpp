// Streams, events and graphs through the driver.
#include "core/device/cuda/cuda_stream.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep::cuda {

namespace {

// Exceptions of host work. A stream, its events and its pending host functions share them, so each may be
// destroyed first.
class HostErrors {
 public:
  bool failed() {
    std::lock_guard lock(mutex_);
    return error_ != nullptr;
  }
  void keep(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  void rethrow(bool clear) {
    std::lock_guard lock(mutex_);
    if (!error_) return;
    std::exception_ptr error = error_;
    if (clear) error_ = nullptr;
    std::rethrow_exception(error);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

struct HostWork {
  std::function<void()> work;
  std::shared_ptr<HostErrors> errors;
  void run() noexcept {
    if (errors->failed()) return;
    try {
      work();
    } catch (...) { errors->keep(std::current_exception()); }
  }
};
void CUDA_CB run_once(void* data) {
  std::unique_ptr<HostWork> item(static_cast<HostWork*>(data));
  item->run();
}
void CUDA_CB run_again(void* data) { static_cast<HostWork*>(data)->run(); }

// The host work of this thread's current capture.
struct Capturing {
  std::shared_ptr<HostErrors> errors = std::make_shared<HostErrors>();
  std::vector<std::unique_ptr<HostWork>> work;
};
thread_local Capturing* capturing = nullptr;

// Polls until the result is not "not ready": fast at first, then at most every 50 microseconds. A kernel that
// never ends is stopped when its deadline passes (by a communicator's abort), and the result is then an
// error.
template <class Query>
void wait_until(Query query, const char* what) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const CUresult result = query();
    if (result == CUDA_SUCCESS) return;
    if (result != CUDA_ERROR_NOT_READY) check(result, what);
    if (std::chrono::steady_clock::now() - start < std::chrono::microseconds(200))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::chrono::seconds deadline() {
  const std::string text = env("LOCKSTEP_DEADLINE");
  const int seconds = std::atoi(text.c_str());
  return std::chrono::seconds(seconds > 0 ? seconds : 600);
}

class CudaEvent : public Event {
 public:
  CudaEvent(CUcontext context, std::shared_ptr<HostErrors> errors)
      : context_(context), errors_(std::move(errors)) {
    check(driver().EventCreate(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  }
  ~CudaEvent() override {
    driver().CtxSetCurrent(context_);
    driver().EventDestroy(event_);
  }
  bool done() override {
    const CUresult result = driver().EventQuery(event_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    check(result, "work before an event");
    errors_->rethrow(false);
    return true;
  }
  void synchronize() override {
    wait_until([&] { return driver().EventQuery(event_); }, "work before an event");
    errors_->rethrow(false);
  }
  CUevent event() const { return event_; }

 private:
  CUcontext context_;
  std::shared_ptr<HostErrors> errors_;
  CUevent event_ = nullptr;
};

class CudaMark : public Mark {
 public:
  CudaMark(CUcontext context, CUstream stream, bool captured) : context_(context) {
    check(driver().EventCreate(&event_, CU_EVENT_DEFAULT), "cuEventCreate");
    // In a graph: a node that records the event at each launch.
    check(driver().EventRecordWithFlags(event_, stream,
                                        captured ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT),
          "cuEventRecordWithFlags");
  }
  ~CudaMark() override {
    driver().CtxSetCurrent(context_);
    driver().EventDestroy(event_);
  }
  double seconds_after(const Mark& earlier) const override {
    auto* from = dynamic_cast<const CudaMark*>(&earlier);
    LS_CHECK(from, "marks of streams of different kinds");
    float milliseconds = 0;
    check(driver().EventElapsedTime(&milliseconds, from->event_, event_), "cuEventElapsedTime");
    return milliseconds * 1e-3;
  }

 private:
  CUcontext context_;
  CUevent event_ = nullptr;
};

class CudaStream : public Stream {
 public:
  CudaStream(CUcontext context, bool first) : context_(context) {
    constexpr int kFirst = -1000;  // the driver clamps it to its highest priority
    check(driver().CtxSetCurrent(context_), "cuCtxSetCurrent");
    check(driver().StreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, first ? kFirst : 0),
          "cuStreamCreate");
  }
  // Waits for pending work, because host work may use objects that are released after its stream; no longer
  // than any other wait.
  ~CudaStream() override {
    driver().CtxSetCurrent(context_);
    const auto end = std::chrono::steady_clock::now() + deadline();
    while (driver().StreamQuery(stream_) == CUDA_ERROR_NOT_READY && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    driver().StreamDestroy(stream_);
  }
  void run(std::function<void()> work) override {
    if (is_capturing()) {
      LS_CHECK(capturing, "host work is captured by a thread that began no capture");
      capturing->work.push_back(std::make_unique<HostWork>(HostWork{std::move(work), capturing->errors}));
      check(driver().LaunchHostFunc(stream_, run_again, capturing->work.back().get()), "cuLaunchHostFunc");
      return;
    }
    auto item = std::make_unique<HostWork>(HostWork{std::move(work), errors_});
    check(driver().LaunchHostFunc(stream_, run_once, item.get()), "cuLaunchHostFunc");
    item.release();  // run_once owns it
  }
  void synchronize() override {
    wait_until([&] { return driver().StreamQuery(stream_); }, "work of a stream");
    errors_->rethrow(true);
    for (const auto& graph : graphs_) graph->rethrow(true);
    graphs_.clear();
  }
  std::shared_ptr<Event> record() override {
    check(driver().CtxSetCurrent(context_), "cuCtxSetCurrent");
    auto event = std::make_shared<CudaEvent>(context_, errors_);
    check(driver().EventRecord(event->event(), stream_), "cuEventRecord");
    return event;
  }
  void wait(const std::shared_ptr<Event>& event) override {
    auto* own = dynamic_cast<CudaEvent*>(event.get());
    LS_CHECK(own, "a CUDA stream can wait only for an event of a CUDA stream");
    check(driver().StreamWaitEvent(stream_, own->event(), CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent");
  }
  std::shared_ptr<Mark> mark() override {
    check(driver().CtxSetCurrent(context_), "cuCtxSetCurrent");
    return std::make_shared<CudaMark>(context_, stream_, is_capturing());
  }
  void* native() const override { return stream_; }

  bool is_capturing() const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    check(driver().StreamIsCapturing(stream_, &status), "cuStreamIsCapturing");
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }
  // A graph with host work was launched here: synchronize() checks its errors, too.
  void launched(const std::shared_ptr<HostErrors>& errors) {
    if (std::find(graphs_.begin(), graphs_.end(), errors) == graphs_.end()) graphs_.push_back(errors);
  }

 private:
  CUcontext context_;
  CUstream stream_ = nullptr;
  std::shared_ptr<HostErrors> errors_ = std::make_shared<HostErrors>();
  std::vector<std::shared_ptr<HostErrors>> graphs_;
};

class CudaGraph : public CapturedWork {
  // With this flag each kernel has the priority of the stream that it was captured on; otherwise all have
  // that of the launching stream.
  static unsigned priorities_of_streams() {
    int version = 0;
    constexpr int kKnown = 11070;
    check(driver().DriverGetVersion(&version), "cuDriverGetVersion");
    return version >= kKnown ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0;
  }

 public:
  CudaGraph(CUcontext context, CUgraph graph, Capturing captured)
      : context_(context), captured_(std::move(captured)) {
    size_t count = 0;
    CUresult result = driver().GraphGetNodes(graph, nullptr, &count);
    nodes_ = static_cast<int64_t>(count);
    if (result == CUDA_SUCCESS)
      result = driver().GraphInstantiateWithFlags(&exec_, graph, priorities_of_streams());
    driver().GraphDestroy(graph);
    check(result, str("instantiating a graph of ", nodes_, " nodes"));
  }
  ~CudaGraph() override {
    driver().CtxSetCurrent(context_);
    if (!captured_.work.empty())
      driver().CtxSynchronize();  // its host functions may still be waiting in a queue
    driver().GraphExecDestroy(exec_);
  }
  void launch(Stream& stream) override {
    check(driver().GraphLaunch(exec_, stream_of(stream)), "cuGraphLaunch");
    if (captured_.work.empty()) return;
    if (auto* own = dynamic_cast<CudaStream*>(&stream)) own->launched(captured_.errors);
  }
  int64_t nodes() const override { return nodes_; }

 private:
  CUcontext context_;
  Capturing captured_;
  CUgraphExec exec_ = nullptr;
  int64_t nodes_ = 0;
};

}  // namespace

std::unique_ptr<Stream> make_cuda_stream(CUcontext context, bool first) {
  return std::make_unique<CudaStream>(context, first);
}

std::unique_ptr<CapturedWork> capture_cuda(CUcontext context, Stream& stream,
                                           const std::function<void()>& enqueue) {
  const CUstream native = stream_of(stream);
  LS_CHECK(native, "only a CUDA stream can be captured");
  LS_CHECK(!capturing, "a capture within a capture");
  check(driver().CtxSetCurrent(context), "cuCtxSetCurrent");
  check(driver().StreamBeginCapture(native, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
  Capturing scope;
  CUgraph graph = nullptr;
  capturing = &scope;
  try {
    enqueue();
  } catch (...) {
    capturing = nullptr;
    driver().StreamEndCapture(native, &graph);  // its result does not matter after the exception
    if (graph) driver().GraphDestroy(graph);
    throw;
  }
  capturing = nullptr;
  const CUresult ended = driver().StreamEndCapture(native, &graph);
  if (ended != CUDA_SUCCESS && graph) driver().GraphDestroy(graph);
  check(ended, "cuStreamEndCapture (each stream that waited for the captured one must be waited for again)");
  return std::make_unique<CudaGraph>(context, graph, std::move(scope));
}

}  // namespace lockstep::cuda
