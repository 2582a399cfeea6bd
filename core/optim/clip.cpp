// Appends the nodes of the norm and the clipping factor.
#include "core/optim/clip.h"

#include "core/base/error.h"
#include "core/nn/scope.h"

namespace lockstep {

Tensor global_norm(const Gradients& gradients, Here at) {
  if (gradients.values.empty())
    throw UserError(str("[global_norm] ", line_of(at).text(), ": there are no gradients"));
  return apply1(ops::global_norm, gradients.values, {}, at);
}

Tensor clip_scale(Tensor norm, double max, Here at) {
  if (!(max > 0))
    throw UserError(str("[clip_scale] ", line_of(at).text(), ": the largest norm is ", number_text(max),
                        "; it must be above 0"));
  return apply1(ops::clip_scale, {norm}, {{"max", Attr(max)}}, at);
}

}  // namespace lockstep
