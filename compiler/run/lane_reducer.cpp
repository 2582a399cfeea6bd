// Partial sums of a bucket, chunk-major: for each owner, its rows of every tensor, so that what goes to one rank is contiguous.
#include "compiler/run/lane_reducer.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/mesh/layout.h"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LS_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define LS_CLONES
#endif

namespace lockstep {

namespace {
LS_CLONES void add_to(float* sum, const float* more, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] = sum[i] + more[i];
}
LS_CLONES void add_three(float* out, const float* a, const float* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}
// Eight accumulators over the row, then a fixed tree.
LS_CLONES double squares_of(const float* row, int64_t count) {
  double lanes[8] = {};
  int64_t whole = count / 8 * 8;
  for (int64_t i = 0; i < whole; i += 8)
    for (int k = 0; k < 8; ++k) lanes[k] += static_cast<double>(row[i + k]) * static_cast<double>(row[i + k]);
  for (int64_t i = whole; i < count; ++i) lanes[i - whole] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}
}  // namespace

struct LaneReducer::Impl {
  struct Tensor {
    int64_t rows = 0, row = 0;                 // row: elements of one row
    std::vector<int64_t> first, count, at;     // per owner: rows, and where they stand in a partial sum (elements)
  };
  Impl(const std::vector<Shape>& shapes, LanePlan given, int threads_in) : plan(given), threads(std::max(1, threads_in)) {
    plan.check();
    for (const auto& shape : shapes) {
      LS_CHECK(!shape.empty(), "a tensor of a bucket has at least one dim");
      Tensor t;
      t.rows = shape[0];
      t.row = t.rows ? numel(shape) / t.rows : 0;
      tensors.push_back(t);
    }
    chunk.assign(static_cast<size_t>(plan.ranks), 0);
    chunk_at.assign(static_cast<size_t>(plan.ranks), 0);
    for (int owner = 0; owner < plan.ranks; ++owner) {
      chunk_at[static_cast<size_t>(owner)] = elements;
      for (auto& t : tensors) {
        auto [first, count] = balanced(t.rows, plan.ranks, owner);
        t.first.push_back(first);
        t.count.push_back(count);
        t.at.push_back(elements);
        elements += count * t.row;
      }
      chunk[static_cast<size_t>(owner)] = elements - chunk_at[static_cast<size_t>(owner)];
    }
    if (plan.lane_range(plan.rank).second > 0) {
      // One buffer per partial that the counter can hold at a time, and the lane that is being folded.
      size_t held = 1;
      auto [first, count] = plan.lane_range(plan.rank);
      for (int64_t n = 1; n <= count; ++n) held = std::max(held, aligned_blocks(first, n - 1).size() + 1);
      for (size_t i = 0; i < held; ++i) partials.emplace_back(static_cast<size_t>(elements) * 4);
    }
    if (plan.ranks > 1) {
      int64_t blocks = static_cast<int64_t>(plan.blocks(plan.rank).size()), received = 0;
      if (blocks > 1) send = Buffer(static_cast<size_t>(blocks * elements) * 4);
      for (int r = 0; r < plan.ranks; ++r) received += static_cast<int64_t>(plan.blocks(r).size()) * chunk[static_cast<size_t>(plan.rank)];
      receive = Buffer(static_cast<size_t>(received) * 4);
    }
  }

  // Applies f(partial offset, tensor, tensor offset, count) to every piece, in parallel over fixed pieces.
  template <class F>
  void pieces(F f) {
    struct Piece {
      size_t tensor;
      int64_t from, at, count;
    };
    constexpr int64_t kPiece = 16384;
    std::vector<Piece> all;
    for (size_t i = 0; i < tensors.size(); ++i)
      for (size_t owner = 0; owner < tensors[i].count.size(); ++owner) {
        int64_t total = tensors[i].count[owner] * tensors[i].row, from = tensors[i].first[owner] * tensors[i].row;
        for (int64_t done = 0; done < total; done += kPiece) all.push_back({i, from + done, tensors[i].at[owner] + done, std::min(kPiece, total - done)});
      }
#pragma omp parallel for num_threads(threads) schedule(static) if (elements > 65536)
    for (size_t p = 0; p < all.size(); ++p) f(all[p].tensor, all[p].from, all[p].at, all[p].count);
  }

  void push(int64_t micro_batch, const std::vector<const void*>& gradients) {
    LS_CHECK(gradients.size() == tensors.size(), gradients.size(), " gradients for a bucket of ", tensors.size());
    int64_t inside = micro_batch % plan.per_lane(), lane = micro_batch / plan.per_lane();
    float* open = partials[blocks.size()].as<float>();  // the lane being folded
    bool complete = inside + 1 == plan.per_lane();
    // A lane of one micro-batch that merges at once is added straight to its left neighbour: left + right, the same sum.
    if (complete && inside == 0 && merges(lane)) {
      float* left = partials[blocks.size() - 1].as<float>();
      pieces([&](size_t t, int64_t from, int64_t at, int64_t count) { add_to(left + at, static_cast<const float*>(gradients[t]) + from, count); });
      blocks.back().size *= 2;
      settle();
      return;
    }
    if (inside == 0) pieces([&](size_t t, int64_t from, int64_t at, int64_t count) { std::memcpy(open + at, static_cast<const float*>(gradients[t]) + from, static_cast<size_t>(count) * 4); });
    else pieces([&](size_t t, int64_t from, int64_t at, int64_t count) { add_to(open + at, static_cast<const float*>(gradients[t]) + from, count); });
    if (complete) {
      blocks.push_back({lane, 1});
      settle();
    }
  }
  bool merges(int64_t lane) const { return !blocks.empty() && blocks.back().size == 1 && blocks.back().first % 2 == 0 && blocks.back().first + 1 == lane; }
  // Merges the newest partials while two of equal size stand side by side.
  void settle() {
    while (blocks.size() > 1) {
      LaneBlock &left = blocks[blocks.size() - 2], right = blocks.back();
      if (left.size != right.size || left.first % (2 * left.size)) break;
      float* a = partials[blocks.size() - 2].as<float>();
      const float* b = partials[blocks.size() - 1].as<float>();
      pieces([&](size_t, int64_t, int64_t at, int64_t count) { add_to(a + at, b + at, count); });
      left.size *= 2;
      blocks.pop_back();
    }
  }

  void start(Group& data, Stream& stream, const std::string& label) {
    LS_CHECK(blocks == plan.blocks(plan.rank), "the counter holds other blocks than planned");
    if (plan.ranks == 1) return;
    size_t n = blocks.size();
    const float* from = n == 1 ? partials[0].as<float>() : send.as<float>();
    AllToAll what{from, receive.data(), {}, {}, DType::f32};
    float* to = n > 1 ? send.as<float>() : nullptr;
    for (int r = 0; r < plan.ranks; ++r) {
      size_t s = static_cast<size_t>(r);
      for (size_t b = 0; n > 1 && b < n; ++b, to += chunk[s]) std::memcpy(to, partials[b].as<float>() + chunk_at[s], static_cast<size_t>(chunk[s]) * 4);
      what.send_counts.push_back(static_cast<int64_t>(n) * chunk[s]);
      what.recv_counts.push_back(static_cast<int64_t>(plan.blocks(r).size()) * chunk[static_cast<size_t>(plan.rank)]);
    }
    work = data.start(what, label, stream);
  }

  // All partial sums of this rank's chunk, in lane order.
  void collect() {
    sources.clear();
    all_blocks.clear();
    size_t me = static_cast<size_t>(plan.rank);
    const float* at = receive ? receive.as<float>() : nullptr;
    for (int r = 0; r < plan.ranks; ++r)
      for (const auto& block : plan.blocks(r)) {
        if (plan.ranks == 1) at = partials[sources.size()].as<float>() + chunk_at[0];
        sources.push_back(at);
        all_blocks.push_back(block);
        if (plan.ranks > 1) at += chunk[me];
      }
  }

  // The counter over all blocks, for elements [from, from + count) of the chunk, into out.
  void combine(int64_t from, int64_t count, float* out, std::vector<std::vector<float>>& scratch) const {
    struct Held {
      LaneBlock block;
      const float* data;
      int slot;  // of scratch; -1: a source
    };
    std::vector<Held> stack;
    std::vector<int> free_slots;
    auto add = [&](Held left, Held right) {
      int slot = left.slot >= 0 ? left.slot : right.slot;
      if (slot < 0) {
        if (free_slots.empty()) scratch.emplace_back(static_cast<size_t>(count)), slot = static_cast<int>(scratch.size()) - 1;
        else slot = free_slots.back(), free_slots.pop_back();
        if (scratch[static_cast<size_t>(slot)].size() < static_cast<size_t>(count)) scratch[static_cast<size_t>(slot)].resize(static_cast<size_t>(count));
      }
      add_three(scratch[static_cast<size_t>(slot)].data(), left.data, right.data, count);
      if (left.slot >= 0 && right.slot >= 0) free_slots.push_back(slot == left.slot ? right.slot : left.slot);
      return Held{{left.block.first, left.block.size + right.block.size}, scratch[static_cast<size_t>(slot)].data(), slot};
    };
    for (size_t s = scratch.size(); s-- > 0;) free_slots.push_back(static_cast<int>(s));
    for (size_t i = 0; i < sources.size(); ++i) {
      stack.push_back({all_blocks[i], sources[i] + from, -1});
      while (stack.size() > 1) {
        const Held &left = stack[stack.size() - 2], &right = stack.back();
        if (left.block.size != right.block.size || left.block.first % (2 * left.block.size)) break;
        Held merged = add(left, right);
        stack.pop_back();
        stack.back() = merged;
      }
    }
    while (stack.size() > 1) {
      Held merged = add(stack[stack.size() - 2], stack.back());
      stack.pop_back();
      stack.back() = merged;
    }
    std::memcpy(out, stack[0].data, static_cast<size_t>(count) * 4);
  }

  void sum(size_t tensor, float* rows, double* row_squares) {
    const Tensor& t = tensors[tensor];
    size_t me = static_cast<size_t>(plan.rank);
    int64_t count = t.count[me], start = t.at[me] - chunk_at[me];
    if (count == 0) return;
    if (t.row == 0) {
      std::fill(row_squares, row_squares + count, 0.0);
      return;
    }
    // Tasks of whole rows, of about 16384 elements.
    int64_t step = std::max<int64_t>(1, 16384 / t.row), tasks = (count + step - 1) / step;
#pragma omp parallel num_threads(threads) if (count * t.row > 65536)
    {
      std::vector<std::vector<float>> scratch;
#pragma omp for schedule(static)
      for (int64_t task = 0; task < tasks; ++task) {
        int64_t first = task * step, last = std::min(count, first + step);
        combine(start + first * t.row, (last - first) * t.row, rows + first * t.row, scratch);
        for (int64_t r = first; r < last; ++r) row_squares[r] = squares_of(rows + r * t.row, t.row);
      }
    }
  }

  LanePlan plan;
  int threads;
  std::vector<Tensor> tensors;
  std::vector<int64_t> chunk, chunk_at;  // per owner: elements, and offset in a partial sum
  int64_t elements = 0;
  std::vector<Buffer> partials;          // the counter, oldest first; then the open lane
  std::vector<LaneBlock> blocks;         // what the counter holds
  Buffer send, receive;
  std::vector<const float*> sources;
  std::vector<LaneBlock> all_blocks;
  std::shared_ptr<Work> work;
};

LaneReducer::LaneReducer(std::vector<Shape> shapes, LanePlan plan, int threads) : impl_(std::make_unique<Impl>(shapes, plan, threads)) {}
LaneReducer::LaneReducer(LaneReducer&&) noexcept = default;
LaneReducer::~LaneReducer() = default;
void LaneReducer::begin() { impl_->blocks.clear(); }
void LaneReducer::push(int64_t micro_batch, const std::vector<const void*>& gradients) { impl_->push(micro_batch, gradients); }
void LaneReducer::start(Group& data, Stream& stream, const std::string& label) { impl_->start(data, stream, label); }
void LaneReducer::wait(Stream& stream) {
  if (impl_->work) impl_->work->wait(stream);
  impl_->work.reset();
  impl_->collect();
}
void LaneReducer::sum(size_t tensor, float* rows, double* row_squares) { impl_->sum(tensor, rows, row_squares); }
std::pair<int64_t, int64_t> LaneReducer::owned_rows(size_t tensor) const {
  size_t me = static_cast<size_t>(impl_->plan.rank);
  return {impl_->tensors[tensor].first[me], impl_->tensors[tensor].count[me]};
}
int64_t LaneReducer::bytes() const {
  size_t bytes = impl_->send.bytes() + impl_->receive.bytes();
  for (const auto& partial : impl_->partials) bytes += partial.bytes();
  return static_cast<int64_t>(bytes);
}

}  // namespace lockstep
