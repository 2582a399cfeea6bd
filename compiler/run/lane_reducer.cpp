// Partials, the exchange, and the last additions.
#include "compiler/run/lane_reducer.h"

#include <algorithm>
#include <cstring>

#include "compiler/run/lane_kernels.h"
#include "core/base/error.h"
#include "core/mesh/layout.h"

namespace lockstep {

namespace {
// Elements handled at once: small enough for the first cache together with a few temporaries. Squares are blocked by it, so it is part of
// the bits.
constexpr int64_t kBlock = 2048;
// Below this many elements a parallel region costs more than it saves.
constexpr int64_t kParallel = 16 * kBlock;

// Calls fn(part, first, end) for contiguous parts of [0, count), one per thread.
template <class Fn>
void in_parts(int64_t count, int threads, Fn fn) {
  if (threads <= 1) return fn(0, int64_t{0}, count);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int part = 0; part < threads; ++part) fn(part, count * part / threads, count * (part + 1) / threads);
}

// How a tensor's rows are cut into pieces: several short rows, or a part of a long one.
struct Cut {
  explicit Cut(int64_t width)
      : rows_per_piece(width <= kBlock ? kBlock / std::max<int64_t>(width, 1) : 1),
        pieces_per_row(width <= kBlock ? 1 : (width + kBlock - 1) / kBlock) {}
  int64_t pieces(int64_t rows) const { return pieces_per_row > 1 ? rows * pieces_per_row : (rows + rows_per_piece - 1) / rows_per_piece; }
  int64_t rows_per_piece, pieces_per_row;
};
}  // namespace

double row_sum_of_squares(const float* row, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i += kBlock) sum += lane_kernels().squares(row + i, std::min(kBlock, count - i));
  return sum;
}

LaneReducer::LaneReducer(const std::vector<Shape>& shapes, const LanePlan& plan, int threads)
    : plan_(plan), threads_(std::max(1, threads)) {
  plan_.check();
  for (const Shape& shape : shapes) {
    LS_CHECK(!shape.empty(), "tensor ", tensors_.size(), " of a bucket has no rows");
    tensors_.push_back({shape[0], shape[0] ? numel(shape) / shape[0] : 0});
    Rows mine = owned_rows(tensors_.size() - 1);
    if (Cut cut(tensors_.back().width); cut.pieces_per_row > 1) pieces_ = std::max(pieces_, cut.pieces(mine.count));
  }
  auto lay_out = [&](int r) {
    const int64_t begin = elements_;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      auto [first, count] = rows(t, r);
      const int64_t width = tensors_[t].width;
      if (r == plan_.rank) at_.push_back(elements_ - begin);
      if (count > 0 && width > 0) runs_.push_back({elements_, t, first * width, count * width});
      elements_ += count * width;
    }
    chunk_count_[static_cast<size_t>(r)] = elements_ - begin;
    return begin;
  };
  chunk_count_.resize(static_cast<size_t>(plan_.ranks));
  for (int r = 0; r < plan_.ranks; ++r)
    if (r != plan_.rank) lay_out(r);
  own_at_ = lay_out(plan_.rank);

  // The slots that this rank's lanes need, at their fullest.
  auto [first_lane, lanes] = plan_.lane_range(plan_.rank);
  LaneCounter counter;
  for (int64_t lane = first_lane; lane < first_lane + lanes; ++lane) {
    const size_t fold = counter.blocks().size() + 1;
    counter.push({lane, 1});
    slots_ = std::max(slots_, plan_.per_lane() > 1 ? fold : counter.blocks().size());
  }

  // What every rank sends, and the tree over all of it.
  counter.clear();
  std::vector<std::vector<LaneBlock>> blocks;
  for (int r = 0; r < plan_.ranks; ++r) {
    blocks.push_back(plan_.blocks(r));
    rounds_ = std::max(rounds_, blocks.back().size());
    for (size_t b = 0; b < blocks.back().size(); ++b) {
      depth_ = std::max(depth_, counter.blocks().size() + 1);
      sources_.push_back({r, static_cast<int>(b), counter.push(blocks.back()[b])});
    }
  }
  sources_.back().merges += counter.remaining();

  // Received partials lie as the rounds bring them: of round b, the chunk of each other rank that has a block b.
  received_at_.resize(blocks.size());
  for (size_t b = 0; b < rounds_; ++b)
    for (int r = 0; r < plan_.ranks; ++r) {
      if (b >= blocks[static_cast<size_t>(r)].size()) continue;
      const bool own = r == plan_.rank;
      received_at_[static_cast<size_t>(r)].push_back(own ? -1 : received_);
      if (!own) received_ += chunk_count_[static_cast<size_t>(plan_.rank)];
    }
}

LaneReducer::Rows LaneReducer::rows(size_t tensor, int rank) const {
  auto [first, count] = balanced(tensors_.at(tensor).rows, plan_.ranks, rank);
  return {first, count};
}

int64_t LaneReducer::bytes() const {
  return (static_cast<int64_t>(slots_) * elements_ + received_) * static_cast<int64_t>(sizeof(float)) +
         pieces_ * static_cast<int64_t>(sizeof(double)) + static_cast<int64_t>(scratch_bytes());
}

size_t LaneReducer::scratch_bytes() const { return static_cast<size_t>(threads_) * depth_ * kBlock * sizeof(float); }
float* LaneReducer::scratch(int part) const { return scratch_.as<float>() + static_cast<size_t>(part) * depth_ * kBlock; }

int64_t LaneReducer::sent_bytes() const {
  const auto blocks = static_cast<int64_t>(received_at_[static_cast<size_t>(plan_.rank)].size());
  return blocks * (elements_ - chunk_count_[static_cast<size_t>(plan_.rank)]) * static_cast<int64_t>(sizeof(float));
}

void LaneReducer::begin() {
  LS_CHECK(works_.empty() && phase_ != Phase::flying, "the exchange of the last step was not waited for");
  if (phase_ == Phase::idle) {
    for (size_t s = 0; s < slots_; ++s) partials_.emplace_back(static_cast<size_t>(elements_) * sizeof(float));
    received_data_ = Buffer(static_cast<size_t>(received_) * sizeof(float));
    scratch_ = Buffer(scratch_bytes());
    piece_squares_.resize(static_cast<size_t>(pieces_));
  }
  counter_.clear();
  next_ = plan_.micro_batch_range(plan_.rank).first;
  phase_ = Phase::adding;
}

void LaneReducer::push(int64_t micro_batch, const std::vector<const void*>& gradients) {
  LS_CHECK(phase_ == Phase::adding, "a gradient outside a step");
  auto [first, count] = plan_.micro_batch_range(plan_.rank);
  LS_CHECK(micro_batch == next_ && micro_batch < first + count, "micro-batch ", micro_batch, " was pushed where ", next_, " of ", first,
           " to ", first + count, " is due");
  LS_CHECK(gradients.size() == tensors_.size(), gradients.size(), " gradients for ", tensors_.size(), " tensors");
  const int64_t lane = micro_batch / plan_.per_lane(), in_lane = micro_batch % plan_.per_lane();
  size_t slot = counter_.blocks().size();
  // The partials that stand to the left of the gradient, nearest first; the farthest one becomes the sum.
  std::vector<float*> lefts;
  if (in_lane > 0) lefts.push_back(partial(slot));
  if (in_lane == plan_.per_lane() - 1) {
    const int merges = counter_.push({lane, 1});
    for (int i = 0; i < merges; ++i) lefts.push_back(partial(--slot));
  }
  accumulate(gradients, lefts, partial(slot));
  ++next_;
}

// to = lefts[n-1] + (... + (lefts[0] + gradient)), one pass over memory; `to` is the last of lefts, or new when there are none.
void LaneReducer::accumulate(const std::vector<const void*>& gradients, const std::vector<float*>& lefts, float* to) const {
  const LaneKernels kernels = lane_kernels();
  in_parts(elements_, elements_ < kParallel ? 1 : threads_, [&](int part, int64_t begin, int64_t end) {
    float* between = scratch(part);
    auto run = std::partition_point(runs_.begin(), runs_.end(), [&](const Run& r) { return r.at + r.count <= begin; });
    for (; run != runs_.end() && run->at < end; ++run) {
      const float* from = static_cast<const float*>(gradients[run->tensor]) + run->from - run->at;
      const int64_t run_end = std::min(end, run->at + run->count);
      for (int64_t i = std::max(begin, run->at); i < run_end; i += kBlock) {
        const int64_t n = std::min(kBlock, run_end - i);
        if (lefts.empty()) std::memcpy(to + i, from + i, static_cast<size_t>(n) * sizeof(float));
        const float* right = from + i;
        for (float* left : lefts) {
          float* sum = left == to ? to + i : between;
          kernels.add(sum, left + i, right, n);
          right = sum;
        }
      }
    }
  });
}

void LaneReducer::start(Group& data, Stream& stream, const std::string& label) {
  LS_CHECK(data.size() == plan_.ranks && data.rank() == plan_.rank, "the plan is for rank ", plan_.rank, " of ", plan_.ranks,
           ", the group has rank ", data.rank(), " of ", data.size());
  auto [first, count] = plan_.micro_batch_range(plan_.rank);
  LS_CHECK(phase_ == Phase::adding && next_ == first + count, "an exchange at micro-batch ", next_, " of ", first, " to ", first + count);
  phase_ = Phase::flying;
  if (plan_.ranks == 1) return;
  const auto me = static_cast<size_t>(plan_.rank);
  int64_t at = 0;
  for (size_t b = 0; b < rounds_; ++b) {
    // Round b carries the b-th subtree of every rank that has one. A rank's own chunk is last in its partial and stays there.
    std::vector<int64_t> send(chunk_count_.size(), 0), receive(chunk_count_.size(), 0);
    const bool mine = b < received_at_[me].size();
    int64_t receives = 0;
    for (size_t r = 0; r < chunk_count_.size(); ++r) {
      if (r == me) continue;
      if (mine) send[r] = chunk_count_[r];
      if (b < received_at_[r].size()) receive[r] = chunk_count_[me], receives += chunk_count_[me];
    }
    float* in = mine ? partial(b) : received_data_.as<float>();
    works_.push_back(data.start(AllToAll{in, received_data_.as<float>() + at, send, receive, DType::f32},
                                rounds_ == 1 ? label : str(label, " part ", b), stream));
    at += receives;
  }
}

void LaneReducer::wait(Stream& stream) {
  LS_CHECK(phase_ == Phase::flying, "no exchange is under way");
  for (auto& work : works_) work->wait(stream);
  works_.clear();
  phase_ = Phase::summed;
}

// out = the tree over sources[i][at .. at + count), count <= kBlock; `between` holds depth_ blocks.
void LaneReducer::merge(const std::vector<const float*>& sources, int64_t at, int64_t count, float* between, float* out) const {
  const LaneKernels kernels = lane_kernels();
  if (sources.size() == 1) {
    std::memcpy(out, sources[0] + at, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  const float* stack[64];  // sizes on it are falling powers of two
  size_t depth = 0, left_to_do = sources.size() - 1;
  for (size_t s = 0; s < sources.size(); ++s) {
    stack[depth++] = sources[s] + at;
    for (int m = 0; m < sources_[s].merges; ++m) {
      --depth;
      float* sum = --left_to_do ? between + static_cast<int64_t>(depth - 1) * kBlock : out;
      kernels.add(sum, stack[depth - 1], stack[depth], count);
      stack[depth - 1] = sum;
    }
  }
}

void LaneReducer::sum(size_t tensor, float* rows_out, double* row_squares) {
  LS_CHECK(phase_ == Phase::summed, "a sum before its exchange was waited for");
  LS_CHECK(tensor < tensors_.size(), "tensor ", tensor, " of ", tensors_.size());
  const int64_t width = tensors_[tensor].width, count = owned_rows(tensor).count;
  if (width == 0) {
    if (row_squares) std::fill_n(row_squares, count, 0.0);
    return;
  }
  std::vector<const float*> sources;
  for (const Source& source : sources_) {
    const int64_t received = received_at_[static_cast<size_t>(source.rank)][static_cast<size_t>(source.block)];
    sources.push_back((received < 0 ? partial(static_cast<size_t>(source.block)) + own_at_ : received_data_.as<float>() + received) +
                      at_[tensor]);
  }
  const LaneKernels kernels = lane_kernels();
  const Cut cut(width);
  double* squares = cut.pieces_per_row > 1 ? piece_squares_.data() : row_squares;
  in_parts(cut.pieces(count), count * width < kParallel ? 1 : threads_, [&](int part, int64_t begin, int64_t end) {
    float* between = scratch(part);
    for (int64_t piece = begin; piece < end; ++piece) {
      if (cut.pieces_per_row > 1) {
        const int64_t column = piece % cut.pieces_per_row * kBlock, n = std::min(kBlock, width - column);
        const int64_t at = piece / cut.pieces_per_row * width + column;
        merge(sources, at, n, between, rows_out + at);
        if (row_squares) squares[piece] = kernels.squares(rows_out + at, n);
      } else {
        const int64_t first = piece * cut.rows_per_piece, number = std::min(cut.rows_per_piece, count - first);
        merge(sources, first * width, number * width, between, rows_out + first * width);
        if (row_squares)
          for (int64_t r = first; r < first + number; ++r) squares[r] = kernels.squares(rows_out + r * width, width);
      }
    }
  });
  if (row_squares && cut.pieces_per_row > 1)
    for (int64_t r = 0; r < count; ++r) {
      row_squares[r] = 0;
      for (int64_t p = 0; p < cut.pieces_per_row; ++p) row_squares[r] += squares[r * cut.pieces_per_row + p];
    }
}

}  // namespace lockstep
