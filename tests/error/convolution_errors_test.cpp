// Every refusal of convolution, windows and pooling, on its words: the op, the user's line, both values, the
// way out.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/nn/convolution.h"
#include "core/ops/op.h"
#include "tests/support/nn_fixture.h"

namespace lockstep {
namespace {
using List = std::vector<int64_t>;
constexpr auto F = DType::f32, H = DType::bf16, I = DType::i32;

struct Case {
  OpId op;
  std::vector<TypedShape> in;
  Attrs attrs;
  std::string words;
};
Attrs conv(List stride, List padding, List dilation, int64_t groups, List spatial = {}) {
  Attrs out{{"stride", stride}, {"lo", padding}, {"hi", padding}, {"dilation", dilation}, {"groups", groups}};
  if (!spatial.empty()) out.set("spatial", spatial);
  return out;
}
Attrs pool(List sizes, List stride, List padding, List dilation, List spatial = {}) {
  Attrs out{{"sizes", sizes}, {"stride", stride}, {"lo", padding}, {"hi", padding}, {"dilation", dilation}};
  if (!spatial.empty()) out.set("spatial", spatial);
  return out;
}
Attrs sliding(const char* first, List sizes, List strides, List dilations) {
  return {{first, sizes}, {"strides", strides}, {"dilations", dilations}};
}
const Attrs kOne = conv({1}, {0}, {1}, 1), kGrad = conv({1}, {0}, {1}, 1, {7}),
            kWeight = conv({1}, {0}, {1}, 1, {3});

const std::vector<Case> kCases{
    {"convolution",
     {{F, {2, 3}}, {F, {4, 3}}},
     kOne,
     "input is f32[2,3], needs 3 to 5 dims: [N, C, 1 to 3 spatial dims]"},
    {"convolution", {{I, {2, 3, 7}}, {I, {4, 3, 3}}}, kOne, "input 0 is i32[2,3,7], needs floats"},
    {"convolution",
     {{F, {2, 3, 7}}, {F, {4, 3, 3, 3}}},
     kOne,
     "input is f32[2,3,7], weight is f32[4,3,3,3]: both have as many spatial dims; the weight is [O, C / "
     "groups, k...]"},
    {"convolution",
     {{F, {2, 3, 7}}, {H, {4, 3, 3}}},
     kOne,
     "dtypes differ: input f32[2,3,7], weight bf16[4,3,3]; convert one?"},
    {"convolution",
     {{F, {2, 3, 7}}, {F, {4, 2, 3}}},
     kOne,
     "input is f32[2,3,7], weight is f32[4,2,3]: the input has 3 channels, the weight reads 2; the weight "
     "is"},
    {"convolution",
     {{F, {2, 6, 7}}, {F, {4, 2, 3}}},
     conv({1}, {0}, {1}, 2),
     "the input has 6 channels, the weight reads 2 in each of 2 groups"},
    {"convolution",
     {{F, {2, 3, 7}}, {F, {4, 3, 3}}},
     conv({1}, {0}, {1}, 2),
     "groups are 2, the input has 3 channels: groups divide them"},
    {"convolution",
     {{F, {2, 4, 7}}, {F, {3, 2, 3}}},
     conv({1}, {0}, {1}, 2),
     "groups are 2, the output has 3 channels: groups divide them"},
    {"convolution",
     {{F, {2, 3, 7}}, {F, {4, 3, 3}}, {F, {3}}},
     kOne,
     "bias is f32[3], needs [4], the channels of weight f32[4,3,3]"},
    {"convolution",
     {{F, {2, 3, 7}}, {F, {4, 3, 3}}},
     conv({1, 1}, {0}, {1}, 1),
     "stride [1,1] for 1 spatial dims: one number per dim"},
    {"convolution", {{F, {2, 3, 7}}, {F, {4, 3, 3}}}, conv({0}, {0}, {1}, 1), "stride [0]: 0 is less than 1"},
    {"convolution",
     {{F, {2, 3, 7}}, {F, {4, 3, 3}}},
     conv({1}, {-1}, {1}, 1),
     "padding [-1]: -1 is less than 0"},
    {"convolution",
     {{F, {2, 3, 7}}, {F, {4, 3, 3}}},
     conv({1}, {1}, {5}, 1),
     "a window spans 11 elements along spatial dim 0, the input has 7 and 2 of padding; use a smaller "
     "window, or more "
     "padding"},
    {"convolution_grad_input",
     {{F, {2, 3, 5}}, {F, {4, 3, 3}}},
     kGrad,
     "the input has 3 channels, the weight has 4 rows; a transposed weight is [I, O / groups, k...]"},
    {"convolution_grad_input",
     {{F, {2, 4, 6}}, {F, {4, 3, 3}}},
     kGrad,
     "input is f32[2,4,6], an output of [7] has [5] windows: spatial dims differ"},
    {"convolution_grad_weight",
     {{F, {2, 3, 7}}, {F, {3, 4, 5}}},
     kWeight,
     "input is f32[2,3,7], dy is f32[3,4,5]: samples and spatial dims are as many"},
    {"convolution_grad_weight",
     {{F, {2, 3, 7}}, {F, {2, 4, 6}}},
     kWeight,
     "dy is f32[2,4,6], the input has [5] windows: spatial dims differ"},
    {"windows",
     {{F, {3}}},
     sliding("sizes", {2, 2}, {1, 1}, {1, 1}),
     "windows of 2 dims over f32[3], which has 1"},
    {"windows",
     {{F, {3}}},
     sliding("sizes", {2}, {1, 1}, {1}),
     "sizes [2], strides [1,1], dilations [1]: one number per dim"},
    {"windows",
     {{F, {3}}},
     sliding("sizes", {4}, {1}, {1}),
     "a window spans 4 elements along spatial dim 0, the input has 3"},
    {"windows_grad",
     {{F, {3}}},
     sliding("spatial", {4}, {1}, {1}),
     "input is f32[3], needs [..., windows, sizes] of 1 dims each"},
    {"windows_grad",
     {{F, {2, 2}}},
     sliding("spatial", {4}, {1}, {1}),
     "input is f32[2,2], spatial dims [4] have [3] windows"},
    {"max_pool", {{F, {2, 3}}}, pool({2}, {2}, {0}, {1}), "input is f32[2,3], needs 3 to 5 dims"},
    {"max_pool",
     {{F, {2, 3, 7}}},
     pool({2, 2}, {2}, {0}, {1}),
     "window [2,2] for 1 spatial dims: one number per dim"},
    {"max_pool",
     {{F, {2, 3, 7}}},
     pool({3}, {2}, {2}, {1}),
     "padding [2] and [2] for a window of [3]: at most half of the window; pad the input instead"},
    {"max_pool_grad",
     {{F, {2, 3, 3}}, {F, {2, 3, 3}}},
     pool({2}, {2}, {0}, {1}, {7}),
     "places are f32[2,3,3], need i32[2,3,3]"},
    {"max_pool_grad",
     {{F, {2, 3, 4}}, {I, {2, 3, 4}}},
     pool({2}, {2}, {0}, {1}, {7}),
     "dy is f32[2,3,4], an input of [7] has [3] windows"},
    {"avg_pool", {{F, {2, 3, 7}}}, pool({2}, {2}, {0}, {2}), "dilation [2]: windows of a mean are dense"},
};

template <class Run>
std::string refusal(Run run) {
  try {
    run();
  } catch (const UserError& error) { return error.what(); }
  return "nothing was thrown";
}
void expect_words(const std::string& message, const std::string& words) {
  EXPECT_NE(message.find(words), std::string::npos) << "no \"" << words << "\" in: " << message;
}

TEST(ConvolutionErrors, TypesThatDoNotFit) {
  for (const Case& one : kCases) {
    const std::string message =
        refusal([&] { infer(op_row(one.op), {one.op, one.in, one.attrs, {"model.cpp", 12, ""}}); });
    EXPECT_EQ(message.rfind(str("[", one.op, "] model.cpp:12: "), 0), 0u) << message;
    expect_words(message, one.words);
  }
}

struct Given {
  std::shared_ptr<Builder> builder = std::make_shared<Builder>();
  Tensor operator()(Shape shape, DType dtype = F) {
    return {builder,
            builder->graph.add_input(InputKind::value, str("v", builder->graph.values.size()), dtype, shape)};
  }
};

TEST(ConvolutionErrors, Functions) {
  Given given;
  Tensor x = given({2, 3, 7, 7}), w = given({4, 3, 3, 3}), flat = given({2, 3});
  const int line = __LINE__ + 1;
  const std::string first = refusal([&] { convolution(x, w, {}, {.stride = {1, 1, 1}}); });
  expect_words(first, str("[convolution] convolution_errors_test.cpp:", line,
                          ": stride [1,1,1] for 2 spatial dims: give one number for all, or one per dim"));
  expect_words(refusal([&] { convolution({}, w); }), "the input is an empty Tensor");
  expect_words(refusal([&] { convolution(x, {}); }), "the weight is an empty Tensor");
  expect_words(refusal([&] { convolution(flat, w); }),
               "input is f32[2,3], needs 3 to 5 dims: [N, C, 1 to 3 spatial dims]");
  Tensor t = given({3, 4, 3, 3});
  expect_words(refusal([&] { convolution_transposed(x, given({3, 4, 3})); }),
               "input is f32[2,3,7,7], weight is f32[3,4,3]: both have as many spatial dims; the weight is "
               "[I, O / groups, k...]");
  expect_words(refusal([&] { convolution_transposed(x, t, {}, {.output_padding = {1}}); }),
               "output padding [1,1] with stride [1,1] and dilation [1,1]: along each dim it is 0 or more "
               "and less than one of them");
  expect_words(refusal([&] { convolution_transposed(x, t, {}, {.stride = {0}}); }),
               "stride [0,0], dilation [1,1]: each is 1 or more");
  expect_words(refusal([&] { convolution_transposed(x, t, {}, {.padding = {5}}); }),
               "the output would have -1 elements along spatial dim 0; pad less");
  expect_words(refusal([&] { convolution_transposed(x, t, given({3})); }),
               "bias is f32[3], needs f32[4], the channels of weight f32[3,4,3,3]");
  expect_words(refusal([&] { convolution_transposed(x, t, {}, {.output_padding = {1}, .dilation = {2}}); }),
               "output padding of the stride or more needs as much padding; choose a larger one");

  expect_words(refusal([&] { max_pool({}, {2}); }), "[max_pool]");
  expect_words(refusal([&] { avg_pool(flat, {2}); }), "[avg_pool]");
  expect_words(refusal([&] { max_pool(x, {2, 2, 2}); }),
               "window [2,2,2] for 2 spatial dims: give one number for all, or one per dim");
  expect_words(refusal([&] { max_pool(x, {0}); }),
               "window [0,0], stride [0,0], dilation [1,1]: each is 1 or more");
  expect_words(refusal([&] { adaptive_avg_pool(x, {0}); }),
               "output [0,0] of f32[2,3,7,7]: every spatial size is 1 or more");
  expect_words(refusal([&] { fold({}, {4}, {2}); }), "the input is an empty Tensor");
  expect_words(refusal([&] { fold(given({2, 6, 4}), {}, {2}); }), "spatial sizes []: 1 to 3 dims");
  expect_words(refusal([&] { fold(given({2, 6, 4}), {4}, {2}, {.stride = {1}}); }),
               "input is f32[2,6,4], windows of [2] over [4] need [N, C * 2, 3]");
}

TEST(ConvolutionErrors, Layers) {
  State state(solo_mesh(), 1);
  expect_words(refusal([&] { Conv2d(state / "a", 3, 4, {3, 3, 3}); }),
               "kernel [3,3,3] for 2 spatial dims: give one number for all, or one per dim");
  expect_words(refusal([&] { Conv2d(state / "b", 3, 4, {0}); }), "kernel [0,0]: each size is 1 or more");
  expect_words(refusal([&] { Conv1d(state / "c", 0, 4, {3}); }), "channels are 0 and 4: both are 1 or more");
  expect_words(refusal([&] { ConvTranspose1d(state / "d", 3, 4, {3}, {.groups = 2}); }),
               "groups are 2, channels 3 and 4: groups divide both");
}

TEST(ConvolutionLayers, WeightsHaveTheShapesOfPyTorch) {
  State state(solo_mesh(), 1);
  Conv2d conv(state / "conv", 6, 4, {3, 5}, {.groups = 2});
  ConvTranspose1d up(state / "up", 6, 4, {3}, {.groups = 2}, false);
  EXPECT_EQ(conv.weight.shape(), (Shape{4, 3, 3, 5}));
  EXPECT_EQ(conv.weight.fqn(), "conv.weight");
  EXPECT_EQ(conv.bias.shape(), (Shape{4}));
  EXPECT_EQ(up.weight.shape(), (Shape{6, 2, 3}));
  EXPECT_FALSE(up.bias);
}

}  // namespace
}  // namespace lockstep
