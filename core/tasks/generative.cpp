// Generative tasks: autoencoding, adversarial.
#include "core/functions/functions.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/tasks/all.h"

namespace lockstep::tasks {

namespace {
struct AutoencodingOptions {
  double beta =
      key(&beta, "beta", 1.0, "times the divergence from the prior: Higgins et al., 2017", at_least(0));
};

std::vector<Field> inputs(const Model& model) { return model.inputs; }

// The negative evidence lower bound of a sample: bce(x) + beta KL(N(mean, var) || N(0, 1)). Kingma and
// Welling, arXiv 1312.6114.
std::vector<Objective> bound(const Model& model, const Batch& batch, const AutoencodingOptions& o) {
  auto out = model.forward(batch.of(model.inputs));
  Tensor x = batch.of(model.inputs)[0];
  Tensor logits = convert(out[0], DType::f32), mean = convert(out[1], DType::f32),
         log_variance = convert(out[2], DType::f32);
  Tensor divergence = -0.5 * sum(1.0 + log_variance - mean * mean - exp(log_variance));
  Tensor count = full(x, {}, static_cast<double>(x.size(0)), DType::i64);
  Tensor error = binary_cross_entropy_with_logits(logits, x).sum;
  metric("reconstruction", Loss{error, count});
  metric("divergence", Loss{divergence, count});
  return {{{error + o.beta * divergence, count}}};
}

// Both networks use the weights at the start of the step. Goodfellow et al., arXiv 1406.2661, with the loss
// that does not saturate.
std::vector<Objective> adversaries(const Model& model, const Batch& batch, const NoOptions&) {
  Tensor real = batch.of(model.inputs)[0];
  Shape noise = model.noise;
  noise.insert(noise.begin(), real.size(0));
  Tensor fake = model.parts.at("generator")({randn(real, noise)})[0];
  const auto& judge = model.parts.at("discriminator");
  Tensor of_fake = convert(judge({fake})[0], DType::f32), of_real = convert(judge({real})[0], DType::f32);
  auto told = [](const Tensor& logits, double target) {
    return binary_cross_entropy_with_logits(logits, full_like(logits, target));
  };
  Loss generator = told(of_fake, 1), seen = told(of_real, 1), unseen = told(of_fake, 0);
  Loss discriminator{seen.sum + unseen.sum, seen.count};
  metric("discriminator_loss", discriminator);
  return {{generator, "generator.**"}, {discriminator, "discriminator.**"}};
}
}  // namespace

const Task& autoencoding() {
  static const Task row = task_of<AutoencodingOptions>(
      {.kind = "autoencoding",
       .about = "a sample from few numbers: the bound of a variational autoencoder",
       .takes = {Output::reconstruction},
       .unit = "sample",
       .fields = [](const Model& model, const AutoencodingOptions&) { return inputs(model); },
       .objectives = bound});
  return row;
}

const Task& adversarial() {
  static const Task row = task_of<NoOptions>(
      {.kind = "adversarial",
       .about = "samples that a second network takes for real ones; the loss is the generator's",
       .takes = {Output::adversaries},
       .unit = "sample",
       .fields = [](const Model& model, const NoOptions&) { return inputs(model); },
       .objectives = adversaries});
  return row;
}

}  // namespace lockstep::tasks
