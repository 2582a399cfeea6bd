// A loss that is traced on some samples and on the whole batch.
#pragma once

#include <functional>
#include <vector>

#include "compiler/trace/mixing.h"
#include "compiler/trace/trace.h"
#include "core/functions/losses.h"

namespace lockstep {

// Of x f32 [B, 6] and ids i32 [B, 3].
using OfBatch = std::function<Loss(const Tensor& x, const Tensor& ids)>;
inline std::vector<compiler::Mixing> found(const OfBatch& of, int64_t samples, int64_t whole) {
  const auto traced = [&](int64_t many) {
    std::vector<compiler::BatchField> batch{{"x", DType::f32, {many, 6}}, {"ids", DType::i32, {many, 3}}};
    return compiler::trace(
        batch, [&](const std::vector<Tensor>& fields) { return of(fields[0], fields[1]); }, {}, 2);
  };
  return compiler::mixed_samples(traced(samples), traced(whole));
}

}  // namespace lockstep
