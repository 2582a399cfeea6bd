// Makes buckets of updates, and the copies before and after them.
#include "compiler/program/build/offload.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/program/words/writer.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
using Tensor = UpdateTensors::Tensor;

constexpr int64_t kLeastBucket = int64_t{2} << 10, kMostBucket = int64_t{256} << 20;  // bytes
constexpr int64_t kGrain = 64;  // tensors are cut at multiples of this many elements, to keep alignment
constexpr int64_t kAligned = 256;
constexpr size_t kSlots = 2;

int64_t aligned(int64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

class Stager {
 public:
  Stager(StepProgram& program, const Graph& whole) : program_(program), whole_(whole), writer_(program) {}

  void run() {
    int64_t moments = 0;
    for (const Instr& instr : program_.instrs)
      if (const auto* update = std::get_if<UpdateTensors>(&instr.what))
        for (const Tensor& tensor : update->tensors) moments += tensor.count * host_bytes(tensor);
    if (moments == 0) return;
    limit_ = offload_bucket(moments);
    for (size_t i = 0; i < program_.instrs.size(); ++i)
      if (const auto* update = std::get_if<UpdateTensors>(&program_.instrs[i].what);
          update && stages(*update))
        cut_update(i, *update);
    place();
    write();
  }

 private:
  struct Bucket {
    size_t instr = 0;  // the instruction with these updates
    std::vector<Tensor> tensors;
    int64_t bytes = 0;  // of moments, each aligned
    std::vector<CopySpans::Copy> in = {}, out = {};
    int arrives = -1, leaves = -1;  // flights
  };

  bool on_host(const Span& span) const { return span.there() && program_.regions[span.region].on_host; }
  bool stages(const UpdateTensors& update) const {
    return std::any_of(update.tensors.begin(), update.tensors.end(),
                       [&](const Tensor& tensor) { return tensor.count * host_bytes(tensor) > 0; });
  }
  const Node& node_of(const Tensor& tensor) const { return whole_.node(tensor.node); }
  // Bytes per element of an input; 0 for a scalar.
  int64_t input_size(const Tensor& tensor, size_t i) const {
    const Value& value = whole_[node_of(tensor).inputs[i]];
    if (value.shape.empty()) return 0;
    const bool half =
        std::find(tensor.halves.begin(), tensor.halves.end(), static_cast<int>(i)) != tensor.halves.end();
    return static_cast<int64_t>(size_of(half ? DType::bf16 : value.dtype));
  }
  // Bytes in host memory per element of a tensor.
  int64_t host_bytes(const Tensor& tensor) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < tensor.inputs.size(); ++i)
      if (on_host(tensor.inputs[i])) bytes += input_size(tensor, i);
    return bytes;
  }

  // The elements [from, from + count) of a tensor.
  Tensor part(const Tensor& tensor, int64_t from, int64_t count) const {
    if (count == tensor.count) return tensor;
    Tensor out = tensor;
    out.count = count;
    const auto cut = [&](Span& span, int64_t size) {
      if (span.there() && size) span = span.part(from * size, count * size);
    };
    for (size_t i = 0; i < out.inputs.size(); ++i) cut(out.inputs[i], input_size(tensor, i));
    for (size_t o = 0; o < out.outputs.size(); ++o)
      cut(out.outputs[o], static_cast<int64_t>(size_of(whole_[node_of(tensor).outputs[o]].dtype)));
    cut(out.copy, static_cast<int64_t>(size_of(out.copy_dtype)));
    return out;
  }

  void cut_update(size_t instr, const UpdateTensors& update) {
    open(instr);
    for (const Tensor& tensor : update.tensors) {
      const int64_t each = host_bytes(tensor), all = tensor.count * each;
      if (all == 0 || tensor.by_rows >= 0) {
        if (all > 0 && all > room() && buckets_.back().bytes) open(instr);
        add(tensor);
        continue;
      }
      for (int64_t from = 0; from < tensor.count;) {
        const int64_t left = tensor.count - from;
        if (left * each > room() && room() < limit_ / 8)
          open(instr);  // small pieces are not worth their own copies
        const int64_t count = std::min(left, std::max(room() / each / kGrain * kGrain, kGrain));
        add(part(tensor, from, count));
        from += count;
      }
    }
  }
  void open(size_t instr) { buckets_.push_back({.instr = instr, .tensors = {}}); }
  int64_t room() const { return limit_ - buckets_.back().bytes; }
  void add(Tensor tensor) {
    for (size_t i = 0; i < tensor.inputs.size(); ++i)
      if (on_host(tensor.inputs[i])) buckets_.back().bytes += aligned(tensor.inputs[i].bytes);
    buckets_.back().tensors.push_back(std::move(tensor));
  }

  // Redirects spans in host memory to the bucket's slot.
  void place() {
    std::vector<Span> slots;
    for (size_t s = 0; s < std::min(kSlots, buckets_.size()); ++s) {
      int64_t bytes = 0;
      for (size_t b = s; b < buckets_.size(); b += kSlots) bytes = std::max(bytes, buckets_[b].bytes);
      slots.push_back(writer_.region(Region::Kind::staging, str("moments ", s), bytes));
    }
    for (size_t b = 0; b < buckets_.size(); ++b) {
      int64_t at = 0;
      for (Tensor& tensor : buckets_[b].tensors) place(tensor, slots[b % kSlots], at, buckets_[b]);
    }
  }
  void place(Tensor& tensor, const Span& slot, int64_t& at, Bucket& bucket) const {
    std::map<Span, Span> moved;
    for (Span& input : tensor.inputs) {
      if (!on_host(input)) continue;
      const Span staged = slot.part(at, input.bytes);
      at += aligned(input.bytes);
      moved[input] = staged;
      if (input.bytes) bucket.in.push_back({.to = staged, .from = input});
      input = staged;
    }
    for (Span& output : tensor.outputs) {
      if (!on_host(output)) continue;
      const auto staged = moved.find(output);
      LS_CHECK(staged != moved.end(), "an update writes ", program_.regions[output.region].name,
               ", which lies on the host, and does not read it");
      if (output.bytes) bucket.out.push_back({.to = output, .from = staged->second});
      output = staged->second;
    }
  }

  void write() {
    const std::vector<Instr> before = std::exchange(program_.instrs, {});
    writer_.into(program_.instrs);
    for (size_t b = 0; b < std::min(kSlots, buckets_.size()); ++b) bring(b);
    size_t next = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      if (next == buckets_.size() || buckets_[next].instr != i) {
        program_.instrs.push_back(before[i]);
        continue;
      }
      for (; next < buckets_.size() && buckets_[next].instr == i; ++next) turn(next, before[i]);
    }
    await(buckets_.back().leaves);
  }
  // Writes a bucket's update. Then the previous bucket has left its slot, and the next one comes there.
  void turn(size_t b, const Instr& of) {
    Bucket& bucket = buckets_[b];
    await(bucket.arrives);
    UpdateTensors update = std::get<UpdateTensors>(of.what);
    update.tensors = std::move(bucket.tensors);
    program_.instrs.push_back({std::move(update), of.micro_batch, of.stage, of.at});
    bucket.leaves = start(true, std::move(bucket.out), str("moments ", b, " back"));
    if (b == 0) return;
    await(buckets_[b - 1].leaves);
    if (b + 1 < buckets_.size()) bring(b + 1);
  }
  void bring(size_t b) { buckets_[b].arrives = start(false, std::move(buckets_[b].in), str("moments ", b)); }
  int start(bool to_host, std::vector<CopySpans::Copy> copies, std::string label) {
    const int flight = program_.flights++;
    writer_.put(StartCopies{to_host, std::move(copies), flight, std::move(label)});
    return flight;
  }
  void await(int& flight) { writer_.finish(flight); }

  StepProgram& program_;
  const Graph& whole_;
  ProgramWriter writer_;
  int64_t limit_ = 0;
  std::vector<Bucket> buckets_;
};
}  // namespace

// A sixteenth of all, because the pipeline fills and drains in the time of one bucket.
int64_t offload_bucket(int64_t moments) {
  return std::clamp(aligned(moments / 16), kLeastBucket, kMostBucket);
}

void stage_moments(StepProgram& program, const Graph& whole) { Stager(program, whole).run(); }

}  // namespace lockstep::compiler
