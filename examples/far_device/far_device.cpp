// A backend from outside the tree, small enough to read: the CPU's memory under another name. Its addresses carry a mark that no host
// instruction can follow, its streams have threads of their own, and captured work is a list: what a real device asks of the program, this
// one asks too.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <type_traits>

#include "lockstep_backend.h"

namespace {
using namespace lockstep;

// Far addresses are the host's with bit 62 set: not canonical on x86-64, so that a host read of one ends the program.
constexpr uintptr_t kMark = uintptr_t{1} << 62;
template <class T>
T* far(T* p) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(p) | kMark);
}
template <class T>
T* near(T* p) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(p) & ~kMark);
}

// A number of the environment; -1: it is not set.
int64_t asked(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : -1;
}

// FAR_DEVICE_MEMORY=BYTES is how much the device has, for tests of a memory that is full; without it, as much as the host. FAR_DEVICE_TOLD
// is what memory_info() says of it then: a driver may be too hopeful.
class FarMemory : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    const auto wanted = static_cast<int64_t>(bytes);
    const int64_t before = used_.fetch_add(wanted);
    if (limit_ >= 0 && before + wanted > limit_) {
      used_ -= wanted;
      throw UserError(str("out of memory on the far device: asked for ", bytes_text(static_cast<double>(bytes)), " (", bytes, " bytes), ",
                          bytes_text(static_cast<double>(limit_ - before)), " of ", bytes_text(static_cast<double>(limit_)),
                          " are free; use a smaller micro-batch or more ranks"));
    }
    return far(cpu_allocator().allocate(bytes));
  }
  void release(void* data, size_t bytes) noexcept override {
    cpu_allocator().release(near(data), bytes);
    used_ -= static_cast<int64_t>(bytes);
  }
  DeviceMemory info() const {
    if (limit_ < 0) return cpu_device().memory_info();
    const int64_t told = asked("FAR_DEVICE_TOLD");
    return {(told < 0 ? limit_ : told) - used_, told < 0 ? limit_ : told};
  }

 private:
  const int64_t limit_ = asked("FAR_DEVICE_MEMORY");
  std::atomic<int64_t> used_ = 0;
};

class FarStream;
// A capture under way: one list of what its streams enqueue, in the order in which they do.
struct Recording {
  std::vector<std::function<void()>> work;
  std::vector<FarStream*> streams;
};
// A point in a recording. The list's order says what is before it.
class RecordedEvent : public Event {
 public:
  explicit RecordedEvent(Recording& in) : in(in) {}
  bool done() override { return true; }
  void synchronize() override {}
  Recording& in;
};

// What is enqueued while a stream records is kept instead of run. A stream that waits for one that records
// does so, too.
class FarStream : public Stream {
 public:
  void run(std::function<void()> work) override {
    if (recording_)
      recording_->work.push_back(std::move(work));
    else
      queue_->run(std::move(work));
  }
  void synchronize() override { queue_->synchronize(); }
  std::shared_ptr<Event> record() override {
    if (recording_) return std::make_shared<RecordedEvent>(*recording_);
    return queue_->record();
  }
  void wait(const std::shared_ptr<Event>& event) override {
    auto* recorded = dynamic_cast<RecordedEvent*>(event.get());
    if (!recorded) return queue_->wait(event);
    if (!recording_) join(recorded->in);
  }
  void join(Recording& recording) {
    recording.streams.push_back(this);
    recording_ = &recording;
  }
  void leave() { recording_ = nullptr; }

 private:
  std::unique_ptr<Stream> queue_ = queue_stream();
  Recording* recording_ = nullptr;
};

class FarProgram : public CapturedWork {
 public:
  explicit FarProgram(std::vector<std::function<void()>> work) : work_(std::move(work)) {}
  void launch(Stream& stream) override {
    for (const auto& item : work_) stream.run(item);
  }
  int64_t nodes() const override { return static_cast<int64_t>(work_.size()); }

 private:
  std::vector<std::function<void()>> work_;
};

class FarDevice : public Device {
 public:
  std::string kind() const override { return "plugin:far"; }
  std::string describe() const override { return "far device (the CPU's memory under another name)"; }
  bool addressable() const override { return false; }
  Allocator& memory() override { return memory_; }
  Allocator& staging() override { return cpu_allocator(); }
  DeviceMemory memory_info() override { return memory_.info(); }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<FarStream>(); }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    if (bytes > 0) stream.run([=] { std::memmove(near(to), near(from), bytes); });  // of nothing there is no address
  }
  void zero(void* data, size_t bytes, Stream& stream) override {
    if (bytes > 0) stream.run([=] { std::memset(near(data), 0, bytes); });
  }
  std::unique_ptr<CapturedWork> capture(Stream& stream, const std::function<void()>& enqueue) override {
    struct Ended : Recording {
      ~Ended() {
        for (FarStream* one : streams) one->leave();
      }
    } recording;
    static_cast<FarStream&>(stream).join(recording);
    enqueue();
    return std::make_unique<FarProgram>(std::move(recording.work));
  }

 private:
  FarMemory memory_;
};

std::vector<void*> near_all(void* const* pointers, size_t count) {
  std::vector<void*> out;
  for (size_t i = 0; i < count; ++i) out.push_back(near(pointers[i]));
  return out;
}

// The CPU's kernels, run on a far stream. How many arguments a kernel has stands in the launch text of its source.
class FarKernel : public Kernel {
 public:
  FarKernel(const Kernel& kernel, size_t arguments) : kernel_(kernel), arguments_(arguments) {}
  void enqueue(void* const* args, void*, Stream& stream, int threads) const override {
    stream.run([this, mine = near_all(args, arguments_), threads] {
      auto now = inline_stream();
      kernel_.enqueue(mine.data(), nullptr, *now, threads);
    });
  }

 private:
  const Kernel& kernel_;
  size_t arguments_;
};
class FarMultiTensor : public MultiTensorKernel {
 public:
  FarMultiTensor(const MultiTensorKernel& kernel, size_t columns, size_t scalars, size_t per_tensor)
      : kernel_(kernel), columns_(columns), scalars_(scalars), per_tensor_(per_tensor) {}
  void enqueue(void* const* table, const int64_t* numels, const float* per_tensor, int64_t tensors, void* const* scalars, Stream& stream,
               int threads) const override {
    const auto n = static_cast<size_t>(tensors);
    stream.run([this, table = near_all(table, n * columns_), numels = std::vector<int64_t>(numels, numels + n),
                each = std::vector<float>(per_tensor, per_tensor + n * per_tensor_), shared = near_all(scalars, scalars_), tensors, threads] {
      auto now = inline_stream();
      kernel_.enqueue(table.data(), numels.data(), each.data(), tensors, shared.data(), *now, threads);
    });
  }

 private:
  const MultiTensorKernel& kernel_;
  size_t columns_, scalars_, per_tensor_;
};

// name -> "arguments" or "columns scalars per_tensor", sent with the machine code.
using Signatures = std::map<std::string, std::string>;

class FarKernels : public KernelSet {
 public:
  FarKernels(std::shared_ptr<const KernelSet> cpu, Signatures signatures) : cpu_(std::move(cpu)), signatures_(std::move(signatures)) {
    for (const auto& [name, sizes] : signatures_) binary_ += name + " " + sizes + "\n";
    binary_ = std::to_string(binary_.size()) + "\n" + binary_ + cpu_->binary();
  }
  const Kernel& find(const std::string& name) const override {
    std::lock_guard lock(mutex_);
    return kernels_.emplace_back(cpu_->find(name), std::stoul(signatures_.at(name)));
  }
  const MultiTensorKernel& find_multi_tensor(const std::string& name) const override {
    std::lock_guard lock(mutex_);
    size_t columns = 0, scalars = 0, per_tensor = 0;
    std::sscanf(signatures_.at(name).c_str(), "%zu %zu %zu", &columns, &scalars, &per_tensor);
    return multi_.emplace_back(cpu_->find_multi_tensor(name), columns, scalars, per_tensor);
  }
  const std::string& binary() const override { return binary_; }
  std::string hash() const override { return cpu_->hash(); }
  bool from_cache() const override { return cpu_->from_cache(); }

 private:
  std::shared_ptr<const KernelSet> cpu_;
  Signatures signatures_;
  std::string binary_;
  mutable std::mutex mutex_;
  mutable std::deque<FarKernel> kernels_;
  mutable std::deque<FarMultiTensor> multi_;
};

class FarCall : public LibraryCall {
 public:
  FarCall(std::unique_ptr<LibraryCall> cpu, size_t arguments) : cpu_(std::move(cpu)), arguments_(arguments) {}
  size_t workspace(int threads) const override { return cpu_->workspace(threads); }
  void enqueue(void* const* args, void* workspace, Stream& stream, int threads) const override {
    stream.run([this, mine = near_all(args, arguments_), workspace, threads] {
      auto now = inline_stream();
      cpu_->enqueue(mine.data(), near(workspace), *now, threads);
    });
  }
  std::string algorithm() const override { return cpu_->algorithm(); }
  double flops() const override { return cpu_->flops(); }

 private:
  std::unique_ptr<LibraryCall> cpu_;
  size_t arguments_;
};

class FarReductions : public Reductions {
 public:
  explicit FarReductions(std::unique_ptr<Reductions> cpu) : cpu_(std::move(cpu)) {}
  void accumulate(std::span<const Run> runs, std::span<const float* const> lefts, float* to, Stream& stream) override {
    std::vector<Run> mine(runs.begin(), runs.end());
    for (auto& run : mine) run.from = near(run.from);
    std::vector<const float*> from;
    for (const float* left : lefts) from.push_back(near(left));
    cpu_->accumulate(mine, from, near(to), stream);
  }
  void sum(std::span<const Sum> sums, Stream& stream) override {
    std::vector<Sum> mine(sums.begin(), sums.end());
    for (auto& sum : mine) {
      for (auto& source : sum.sources) source.at = near(source.at);
      sum.out = near(sum.out);
      sum.row_squares = near(sum.row_squares);
    }
    cpu_->sum(mine, stream);
  }
  size_t most_sources() const override { return cpu_->most_sources(); }
  size_t most_lefts() const override { return cpu_->most_lefts(); }
  void limbs(std::span<const Doubles> addends, int64_t* words, Stream& stream) override {
    std::vector<Doubles> mine(addends.begin(), addends.end());
    for (auto& addend : mine) addend.from = near(addend.from);
    cpu_->limbs(mine, near(words), stream);
  }
  void norm_of_limbs(const int64_t* words, float* norm, Stream& stream) override { cpu_->norm_of_limbs(near(words), near(norm), stream); }
  void copy(std::span<const Copy> copies, Stream& stream) override {
    std::vector<Copy> mine(copies.begin(), copies.end());
    for (auto& one : mine) one.to = near(one.to), one.from = near(one.from);
    cpu_->copy(mine, stream);
  }
  void checksums(std::span<const Bytes> parts, uint64_t* sums, const int64_t* wanted, Stream& stream) override {
    std::vector<Bytes> mine(parts.begin(), parts.end());
    for (auto& part : mine) part.from = near(part.from);
    cpu_->checksums(mine, near(sums), near(wanted), stream);
  }
  void add(int64_t* totals, const int64_t* addend, int64_t count, Stream& stream) override {
    cpu_->add(near(totals), near(addend), count, stream);
  }
  void sum_rows(const Rows& given, Stream& stream) override {
    Rows rows = given;
    rows.ids = near(rows.ids), rows.rows = near(rows.rows);
    rows.out_ids = near(rows.out_ids), rows.out_rows = near(rows.out_rows), rows.squares = near(rows.squares);
    cpu_->sum_rows(rows, stream);
  }
  void put_rows(const Placed& given, Stream& stream) override {
    Placed rows = given;
    rows.table = near(rows.table), rows.ids = near(rows.ids), rows.rows = near(rows.rows);
    for (auto& gate : rows.gates) gate.value = near(gate.value), gate.limit = near(gate.limit);
    cpu_->put_rows(rows, stream);
  }

 private:
  std::unique_ptr<Reductions> cpu_;
};

class FarTarget : public Target {
 public:
  Device& device() const override { return device_; }
  bool claims(OpId op) const override { return cpu_target().claims(op); }
  bool is_library_op(OpId op) const override { return cpu_target().is_library_op(op); }
  bool accepts_strides(const Node& node, size_t index) const override {
    return cpu_target().accepts_strides(node, index);
  }
  KernelSource generate(const Graph& body) const override {
    KernelSource source = cpu_target().generate(body);
    source.launch = std::to_string(body.inputs.size() + body.outputs.size());
    return source;
  }
  KernelSource generate_multi_tensor(const Graph& body) const override {
    KernelSource source = cpu_target().generate_multi_tensor(body);
    size_t columns = body.outputs.size(), scalars = 0, per_tensor = 0;
    for (const auto& input : body.inputs) ++(!body[input.value].shape.empty() ? columns : input.kind == InputKind::scalar ? scalars : per_tensor);
    source.launch = str(columns, " ", scalars, " ", per_tensor);
    return source;
  }
  std::shared_ptr<const KernelSet> compile(std::vector<KernelSource> sources, const TargetOptions& options) const override {
    Signatures signatures;
    for (const auto& source : sources) signatures[source.name] = source.launch;
    return std::make_shared<FarKernels>(cpu_target().compile(std::move(sources), options), std::move(signatures));
  }
  std::shared_ptr<const KernelSet> load(const std::string& binary) const override {
    const size_t line = binary.find('\n'), bytes = std::stoul(binary.substr(0, line));
    Signatures signatures;
    for (const auto& entry : split(binary.substr(line + 1, bytes), '\n'))
      if (const size_t space = entry.find(' '); space != std::string::npos) signatures[entry.substr(0, space)] = entry.substr(space + 1);
    return std::make_shared<FarKernels>(cpu_target().load(binary.substr(line + 1 + bytes)), std::move(signatures));
  }
  std::unique_ptr<LibraryCall> make_library_call(const Node& node, const std::vector<Operand>& in, const std::vector<Operand>& out,
                                                 const TargetOptions& options) const override {
    return std::make_unique<FarCall>(cpu_target().make_library_call(node, in, out, options), in.size() + out.size());
  }
  bool sums_rows() const override { return true; }
  std::unique_ptr<Reductions> make_reductions(const TargetOptions& options) const override {
    return std::make_unique<FarReductions>(cpu_target().make_reductions(options));
  }
  std::string library_version() const override { return cpu_target().library_version(); }

 private:
  mutable FarDevice device_;
};

const Target& open_far(int, int) {
  static FarTarget target;
  return target;
}
}  // namespace

LOCKSTEP_BACKEND {
  static const lockstep::Plugin plugin{LOCKSTEP_PLUGIN_VERSION, "far", open_far, nullptr};
  return &plugin;
}
