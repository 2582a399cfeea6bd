// Convolutions as matrix products: the product for a shape, the copies of pixels before and after, and the
// call.
#include <algorithm>
#include <numeric>

#include "compiler/codegen/cuda/convolution/convolution.h"
#include "compiler/codegen/cuda/loops/form.h"
#include "compiler/codegen/cuda/matmul/gemm_bf16x6.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {
using Which = ConvolutionShape::Which;
constexpr int64_t kFloat = 4;   // bytes
constexpr int64_t kVector = 4;  // floats of 16 bytes

bool all(const std::vector<int64_t>& list, int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](int64_t n) { return n == value; });
}

GemmOptions product(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  return {.m = m, .n = n, .k = k, .ta = ta, .tb = tb, .lda = ta ? m : k, .ldb = tb ? k : n, .ldd = n};
}

// Moves between the whole pixels of the input and those that windows read, a patch for each.
struct Moves {
  PixelMove gather, spread;
};
Moves moves_of(const ConvolutionShape& s) {
  PixelMove gather{.channels = s.channels, .samples = s.n};
  std::copy_n(s.spatial.begin(), 2, gather.from), std::copy_n(s.spatial.begin(), 2, gather.to);
  PixelMove spread = gather;
  if (s.sizes[0] == 1) {
    gather.up = spread.down = s.stride[0];
    std::copy_n(s.counts.begin(), 2, gather.to), std::copy_n(s.counts.begin(), 2, spread.from);
  }
  gather.to_patch = spread.from_patch = s.sizes[0];
  return {gather, spread};
}

ConvolutionProduct channels_last(const ConvolutionShape& s) {
  const int64_t rows = s.n * s.windows(), terms = s.places() * s.channels;
  ConvolutionProduct out;
  switch (s.which) {
    case Which::forward:
      out.gemm = product(rows, s.outputs, terms, false, true);
      if (s.bias) out.gemm.epilogue = Epilogue::bias;
      break;
    case Which::input:
      out.gemm = product(rows, terms, s.outputs, false, false);
      break;
    case Which::weight:
      out.gemm = product(s.outputs, terms, rows, true, false);
  }
  if (s.stride[0] == 1) return out;
  const Moves moves = moves_of(s);
  if (s.which == Which::input)
    out.spread = moves.spread;
  else
    (s.which == Which::forward ? out.a : out.b) = moves.gather;
  return out;
}

// A product for each sample, all with the same weight.
ConvolutionProduct channels_first(const ConvolutionShape& s) {
  const int64_t terms = s.places() * s.channels;
  ConvolutionProduct out;
  GemmOptions& g = out.gemm;
  g = product(terms, s.windows(), s.outputs, true, false);
  g.batch = s.n, g.stride_b = s.outputs * s.windows(), g.stride_d = terms * s.windows();
  g.alignment = static_cast<int>(std::gcd(std::gcd(g.stride_b, g.stride_d) * kFloat, int64_t{g.alignment}));
  out.spread = moves_of(s).spread;
  out.spread->planes = true;
  return out;
}

class ProductConvolution : public LibraryCall {
 public:
  ProductConvolution(CudaDevice& device, const ConvolutionShape& shape, const ConvolutionProduct& product,
                     std::unique_ptr<Gemm> gemm, const std::string& cache_dir)
      : shape_(shape), product_(product), gemm_(std::move(gemm)) {
    device.enter();
    text_ = str("product ", convolution_text(shape_), "; ", gemm_->algorithm());
    for (const auto& move : {product_.a, product_.b, product_.spread}) {
      if (!move) continue;
      const std::string source = move_pixels_source(*move);
      kernel_ = {source_module(device, source, cache_dir), "move_pixels"};
      text_ += str(" ", hash_hex(source));
    }
    text_ += " deterministic";
  }
  size_t workspace(int) const override { return moved() + gemm_->workspace(); }
  std::string algorithm() const override { return text_; }
  double flops() const override { return convolution_flops(shape_); }
  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    const ConvolutionPointers p = convolution_pointers(shape_, args);
    GemmArgs call;
    call.a = shape_.which == Which::forward ? p.x : p.y;
    call.b = shape_.which == Which::weight ? p.x : p.weight;
    if (!shape_.channels_last) std::swap(call.a, call.b);
    void* made = shape_.which == Which::forward ? p.y : shape_.which == Which::weight ? p.weight : p.x;
    if (product_.a) move(*product_.a, call.a, workspace, stream), call.a = workspace;
    if (product_.b) move(*product_.b, call.b, workspace, stream), call.b = workspace;
    call.d = product_.spread ? workspace : made;
    if (product_.gemm.epilogue == Epilogue::bias) call.bias = p.bias;
    gemm_->enqueue(call, static_cast<char*>(workspace) + moved(), stream);
    if (product_.spread) move(*product_.spread, workspace, made, stream);
  }

 private:
  // Bytes of the gathered operand, or of the result before it is spread.
  size_t moved() const {
    const GemmOptions& g = product_.gemm;
    const int64_t elements = product_.spread ? g.batch * g.m * g.n
                             : product_.a    ? product_.a->elements()
                             : product_.b    ? product_.b->elements()
                                             : 0;
    return static_cast<size_t>(over(elements * kFloat, 256) * 256);
  }
  void move(const PixelMove& move, const void* from, void* to, Stream& stream) const {
    void* params[] = {&from, &to};
    const int64_t lane = !move.planes && move.channels % kVector == 0 ? kVector : 1;
    launch(kernel_, static_cast<unsigned>(std::min<int64_t>(over(move.elements() / lane, 256), 1 << 16)), 1,
           1, 256, 0, stream, params, "move_pixels");
  }

  ConvolutionShape shape_;
  ConvolutionProduct product_;
  std::unique_ptr<Gemm> gemm_;
  SourceKernel kernel_;
  std::string text_;
};

constexpr const char* kMoveRows = R"(
struct __align__(4 * LANE) Lane { float v[LANE]; };
extern "C" __global__ void move_pixels(const Lane* from, Lane* to) {
  for (Number i = blockIdx.x * (Number)256 + threadIdx.x; i < SAMPLES * TO_H * TO_W * LANES;
       i += gridDim.x * (Number)256) {
    const Number row = i / LANES, lane = i % LANES;
    const Number place = row % (TO_P * TO_P), patch = row / (TO_P * TO_P);
    const Number wide = TO_W / TO_P, high = TO_H / TO_P, n = patch / wide / high,
                 up_y = (patch / wide % high * TO_P + place / TO_P) * UP,
                 up_x = (patch % wide * TO_P + place % TO_P) * UP, y = up_y / DOWN, x = up_x / DOWN;
    Lane value = {};
    if (up_y % DOWN == 0 && up_x % DOWN == 0 && y < FROM_H && x < FROM_W) {
      const Number at = (n * (FROM_H / FROM_P) + y / FROM_P) * (FROM_W / FROM_P) + x / FROM_P;
      value = from[(at * (FROM_P * FROM_P) + y % FROM_P * FROM_P + x % FROM_P) * LANES + lane];
    }
    to[i] = value;
  }
}
)";
constexpr const char* kMovePlanes = R"(
typedef float Lane;
extern "C" __global__ void move_pixels(const Lane* from, Lane* to) {
  for (Number i = blockIdx.x * (Number)256 + threadIdx.x; i < SAMPLES * LANES * TO_H * TO_W;
       i += gridDim.x * (Number)256) {
    const Number plane = i / (TO_H * TO_W), down_y = i / TO_W % TO_H, down_x = i % TO_W;
    const Number y = down_y / DOWN, x = down_x / DOWN;
    Lane value = 0;
    if (down_y % DOWN == 0 && down_x % DOWN == 0 && y < FROM_H && x < FROM_W) {
      const Number place = y % FROM_P * FROM_P + x % FROM_P;
      const Number line = (plane * (FROM_P * FROM_P) + place) * (FROM_H / FROM_P) + y / FROM_P;
      value = from[line * (FROM_W / FROM_P) + x / FROM_P];
    }
    to[i] = value;
  }
}
)";
}  // namespace

bool has_separate_windows(const ConvolutionShape& s) {
  const int64_t size = s.sizes[0], stride = s.stride[0];
  if (s.groups != 1 || !all(s.lo, 0) || !all(s.hi, 0) || !all(s.dilation, 1)) return false;
  if (!all(s.sizes, size) || !all(s.stride, stride) || (stride > 1 && s.dims() != 2)) return false;
  return size == 1 || (size == stride && s.spatial[0] % size == 0 && s.spatial[1] % size == 0);
}

std::optional<ConvolutionProduct> convolution_product(const ConvolutionShape& s) {
  if (s.dtype != DType::f32 || s.n * s.windows() * s.weights() * s.elements() == 0) return {};
  if (!has_separate_windows(s) || s.n * s.elements() > INT32_MAX) return {};
  if (s.channels_last) return channels_last(s);
  if (s.which != Which::input || s.stride[0] == 1) return {};
  return channels_first(s);
}

std::string move_pixels_source(const PixelMove& m) {
  const int64_t lane = !m.planes && m.channels % kVector == 0 ? kVector : 1;
  const int64_t largest = std::max(m.elements(), m.samples * m.from[0] * m.from[1] * m.channels);
  // Twice the number: a thread's index goes one grid beyond the last element.
  const bool narrow = largest / lane < (int64_t{1} << 30);
  auto number = [&](const char* name, int64_t value) {
    return str("#define ", name, " ((Number)", value, ")\n");
  };
  return str("typedef ", narrow ? "int" : "long long", " Number;\n#define LANE ", lane, "\n",
             number("LANES", m.channels / lane), number("SAMPLES", m.samples), number("FROM_H", m.from[0]),
             number("FROM_W", m.from[1]), number("TO_H", m.to[0]), number("TO_W", m.to[1]),
             number("UP", m.up), number("DOWN", m.down), number("FROM_P", m.from_patch),
             number("TO_P", m.to_patch), m.planes ? kMovePlanes : kMoveRows);
}

std::unique_ptr<LibraryCall> make_product_convolution(CudaDevice& device, const ConvolutionShape& shape,
                                                      const ConvolutionProduct& product,
                                                      const std::string& cache_dir) {
  auto gemm = make_product(device, product.gemm, cache_dir);
  if (!gemm) return nullptr;
  return std::make_unique<ProductConvolution>(device, shape, product, std::move(gemm), cache_dir);
}

}  // namespace lockstep::compiler::cuda
