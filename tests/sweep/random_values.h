// The values of a random graph while it is drawn, with what is known of their elements.
//
// Two backends round differently, so what is not continuous (a comparison, the place of the largest element,
// the slope of relu) is asked of exact values alone: those whose elements are short binary fractions, which
// no rounding changes. Magnitudes are known, too, so that functions stay where they are finite and smooth.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/reference/host_tensor.h"
#include "core/functions/functions.h"

namespace lockstep::sweep {

struct Known {
  Tensor tensor;
  double most = 0;   // no element is larger in magnitude
  int fraction = 0;  // binary digits behind the point of each element; kRounded: it was rounded
  bool read = false;
  bool exact() const;
  bool is_float() const { return lockstep::is_float(tensor.dtype()); }
  bool is_int() const { return tensor.dtype() == DType::i32; }
  bool is_bool() const { return tensor.dtype() == DType::boolean; }
  Shape shape() const { return tensor.shape(); }
  int ndim() const { return tensor.ndim(); }
  int64_t size() const { return numel(tensor.shape()); }
};
inline constexpr int kRounded = -1000;

class RandomValues {
 public:
  explicit RandomValues(uint64_t seed);

  // Numbers of the seed, in order.
  int64_t below(int64_t n);                                                    // 0 ... n - 1
  int64_t between(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }  // both included
  bool chance(double p);
  template <class T>
  T pick(std::initializer_list<T> of) {
    return *(of.begin() + below(static_cast<int64_t>(of.size())));
  }

  using Wanted = std::function<bool(const Known&)>;
  // One of the values that are wanted, more often one that nothing reads yet; nothing where there is none.
  std::optional<Known> any(const Wanted& wanted);
  std::optional<Known> floats(int least_dims = 0, int most_dims = 5);        // not empty
  std::optional<Known> exact_floats(int least_dims = 0, int most_dims = 5);  // not empty
  // Another value of that dtype that broadcasts with it; where there is none, a new input.
  Known beside(const Known& first, bool exact = false);
  // A new input; of floats, it is differentiated.
  Known input(DType dtype, Shape shape);
  // An i32 value, and one with elements in [0, n), both exact.
  Known integers();
  Tensor ids(const Known& from, int64_t n);

  // x times a power of two, so that no element is larger than `most`: known of it.
  Known within(const Known& x, double most);

  // Takes a value into the graph; brings it back to moderate magnitudes.
  void add(Tensor made, double most, int fraction = kRounded);
  // Whether a result of this shape is small enough to be drawn.
  bool fits(const Shape& shape) const;

  bool smooth = true;  // no function was drawn that has a kink
  bool wide = false;
  bool may_kink = true;  // functions with kinks are drawn
  std::shared_ptr<Builder> builder = std::make_shared<Builder>();
  std::vector<Known> values;
  std::vector<Tensor> differentiated;
  std::vector<compiler::HostTensor> inputs;

 private:
  uint32_t bits() { return philox_(next_++); }
  std::function<uint32_t(uint64_t)> philox_;
  uint64_t seed_, next_ = 0;
};

// A function that may be drawn: false where no value of the graph fits it.
struct Move {
  const char* name;
  int weight;
  bool kinks;  // or is not continuous: drawn of exact values, and never in a smooth graph
  std::function<bool(RandomValues&)> draw;
};
std::vector<Move> pointwise_moves();
std::vector<Move> view_moves();
std::vector<Move> row_moves();      // reductions, norms, order
std::vector<Move> product_moves();  // contractions, convolutions, pools, indices, losses

}  // namespace lockstep::sweep
