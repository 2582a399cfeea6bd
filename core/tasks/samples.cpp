// Tasks on samples: classification, segmentation, regression, binary.
#include "core/functions/functions.h"
#include "core/nn/metric.h"
#include "core/tasks/all.h"

namespace lockstep::tasks {

namespace {
struct ClassOptions {
  double label_smoothing =
      key(&label_smoothing, "label_smoothing", 0.0,
          "share of the target that is spread equally over all classes", from_below(0, 1));
};
struct RegressionOptions {
  std::string loss =
      key(&loss, "loss", "mse", "what is minimised of the differences", one_of({"mse", "l1", "huber"}));
};

std::vector<Field> with(const Model& model, Field targets) {
  std::vector<Field> out = model.inputs;
  out.push_back(std::move(targets));
  return out;
}

// Whether the target is among the five largest logits: fewer than five exceed its own.
Tensor in_top_5(const Tensor& logits, const Tensor& targets) {
  Tensor own = take_along_dim(logits, unsqueeze(targets, -1), -1);
  return sum(convert(logits > own, DType::i32), {-1}) < 5;
}

std::vector<Objective> classes(const Model& model, const Batch& batch, const ClassOptions& o) {
  Tensor logits = convert(model.forward(batch.of(model.inputs))[0], DType::f32), targets = batch["labels"];
  metric("accuracy", mean_loss(convert(argmax(logits, -1) == targets, DType::f32)));
  if (model.classes > 5) metric("top5", mean_loss(convert(in_top_5(logits, targets), DType::f32)));
  return {{o.label_smoothing > 0 ? cross_entropy(logits, targets, {.smoothing = o.label_smoothing})
                                 : cross_entropy(logits, targets)}};
}

// Logits [B,K,H,W] against labels [B,H,W]; those of -100 do not count.
std::vector<Objective> pixels(const Model& model, const Batch& batch, const ClassOptions& o) {
  Tensor logits = permute(convert(model.forward(batch.of(model.inputs))[0], DType::f32), {0, 2, 3, 1});
  Tensor targets = batch["labels"], counts = targets != static_cast<double>(kIgnoreIndex);
  metric("accuracy", mean_loss(convert(argmax(logits, -1) == targets, DType::f32), counts));
  return {{o.label_smoothing > 0 ? cross_entropy(logits, targets, {.smoothing = o.label_smoothing})
                                 : cross_entropy(logits, targets)}};
}

std::vector<Objective> values(const Model& model, const Batch& batch, const RegressionOptions& o) {
  Tensor y = convert(model.forward(batch.of(model.inputs))[0], DType::f32), targets = batch["targets"];
  if (o.loss != "mse") metric("mse", mse_loss(y, targets));
  return {{o.loss == "mse"  ? mse_loss(y, targets)
           : o.loss == "l1" ? l1_loss(y, targets)
                            : huber_loss(y, targets)}};
}

std::vector<Objective> yes_or_no(const Model& model, const Batch& batch, const NoOptions&) {
  Tensor logits = convert(model.forward(batch.of(model.inputs))[0], DType::f32), targets = batch["targets"];
  metric("accuracy", mean_loss(convert((logits > 0) == (targets > 0.5), DType::f32)));
  return {{binary_cross_entropy_with_logits(logits, targets)}};
}
}  // namespace

const Task& classification() {
  static const Task row = task_of<ClassOptions>(
      {.kind = "classification",
       .about = "the class of a sample: cross-entropy, accuracy, top-5",
       .takes = {Output::classes},
       .unit = "sample",
       .fields = [](const Model& model,
                    const ClassOptions&) { return with(model, {"labels", DType::i32, {}, model.classes}); },
       .objectives = classes});
  return row;
}

const Task& segmentation() {
  static const Task row = task_of<ClassOptions>(
      {.kind = "segmentation",
       .about = "the class of each pixel: cross-entropy, accuracy",
       .takes = {Output::pixels},
       .unit = "pixel",
       .fields =
           [](const Model& model, const ClassOptions&) {
             const Shape& image = model.inputs[0].shape;
             return with(model, {"labels", DType::i32, {image[1], image[2]}, model.classes});
           },
       .objectives = pixels});
  return row;
}

const Task& regression() {
  static const Task row = task_of<RegressionOptions>(
      {.kind = "regression",
       .about = "numbers of a sample: mean squared, absolute or Huber's difference",
       .takes = {Output::values, Output::classes},
       .unit = "sample",
       .fields =
           [](const Model& model, const RegressionOptions&) {
             return with(model, {"targets", DType::f32, {model.classes}});
           },
       .objectives = values});
  return row;
}

const Task& binary() {
  static const Task row = task_of<NoOptions>(
      {.kind = "binary",
       .about = "yes or no, as a click: cross-entropy with logits, accuracy",
       .takes = {Output::values},
       .unit = "sample",
       .fields = [](const Model& model,
                    const NoOptions&) { return with(model, {"targets", DType::f32, {model.classes}}); },
       .objectives = yes_or_no});
  return row;
}

}  // namespace lockstep::tasks
