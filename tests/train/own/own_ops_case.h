// Definitions of ops, one of each kind of code: what tests of registered ops register.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "core/functions/functions.h"
#include "core/table/register.h"

namespace lockstep::testing {

using Tensors = std::vector<Tensor>;
inline Sample of(std::vector<Shape> shapes, Attrs attrs = {}) {
  Sample out;
  for (Shape& shape : shapes) out.in.push_back({DType::f32, std::move(shape)});
  out.attrs = std::move(attrs);
  return out;
}

// x sigmoid(k x), as scalar code.
inline OpDefinition swish(const std::string& name = "mine::swish") {
  return {.name = name,
          .attrs = {{"k", AttrType::number}},
          .scalar = "{0} * ls_sigmoid({0} * {k})",
          .cost = 25,
          .formula = [](std::span<const double> x,
                        const Attrs& attrs) { return x[0] / (1 + std::exp(-attrs.number("k") * x[0])); },
          .gradient =
              [](const VjpContext& c) {
                const double k = c.attrs.number("k");
                Tensor s = sigmoid(c.in[0] * k);
                return Tensors{c.grad[0] * (s + c.in[0] * k * s * (1.0 - s))};
              },
          .samples = {of({{3, 5}}, {{"k", 1.5}}), of({{2, 1, 17}}, {{"k", 1.702}})}};
}
// y = w x / (1 + max |x|) of each row, as C++ and CUDA source, with an expansion.
inline OpDefinition squeeze_rows(const std::string& name = "mine::squeeze_rows") {
  const std::string source = R"(
OWN_FN void run(const Tensor* in, const Tensor* out, const double* attrs, i64 item) {
  const i64 width = in[0].shape[in[0].rank - 1];
  const real *x = (const real*)in[0].data + item * width, *w = (const real*)in[1].data;
  real* y = (real*)out[0].data + item * width;
  real most = 0;
  for (i64 i = 0; i < width; ++i) most = x[i] > most ? x[i] : -x[i] > most ? -x[i] : most;
  for (i64 i = 0; i < width; ++i) y[i] = w[i] * x[i] / (1 + most);
})";
  return {.name = name,
          .inputs = 2,
          .dtypes = {DType::f32, DType::f64},
          .placement = "rows",
          .expand =
              [](const ExpandContext& c) {
                Tensor most = broadcast_to(max(abs(c.in[0]), {-1}, true), c.in[0].shape());
                return Tensors{c.in[0] * broadcast_to(c.in[1], c.in[0].shape()) / (1.0 + most)};
              },
          .cpp = source,
          .cuda = source,
          .samples = {of({{3, 5}, {5}}), of({{2, 1, 17}, {17}})}};
}

// Softplus by a function of the host.
inline void softplus_on_host(const OpTensor* in, const OpTensor* out, const Attrs& attrs) {
  const double beta = attrs.number("beta");
  for (int64_t i = 0; i < in[0].count; ++i)
    static_cast<float*>(out[0].data)[i] =
        static_cast<float>(std::log1p(std::exp(beta * static_cast<const float*>(in[0].data)[i])) / beta);
}
inline OpDefinition host_softplus(const std::string& name = "mine::host_softplus") {
  return {
      .name = name,
      .attrs = {{"beta", AttrType::number}},
      .host = softplus_on_host,
      .formula =
          [](std::span<const double> x, const Attrs& attrs) {
            return std::log1p(std::exp(attrs.number("beta") * x[0])) / attrs.number("beta");
          },
      .gradient =
          [](const VjpContext& c) { return Tensors{c.grad[0] * sigmoid(c.in[0] * c.attrs.number("beta"))}; },
      .samples = {of({{3, 5}}, {{"beta", 1.5}})}};
}

}  // namespace lockstep::testing
