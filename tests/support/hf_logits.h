// Logits of a run's model for the inputs of tests/golden/hf/make.py, and those that are kept.
#pragma once

#include <fstream>
#include <sstream>

#include "checkpoint/checkpoint.h"
#include "compiler/compile/forward.h"
#include "core/nn/layers.h"
#include "launcher/trainer/model.h"
#include "launcher/trainer/options.h"

namespace lockstep::tests {

inline Json json_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return Json::parse(text.str());
}

// Numbers of nested lists, in order.
inline std::vector<double> flat(const Json& nested) {
  if (!nested.is_array()) return {nested.get<double>()};
  std::vector<double> out;
  for (const auto& part : nested)
    for (double value : flat(part)) out.push_back(value);
  return out;
}

// What make.py gives to the models: ids, or images. Of pairs for a classifier the second has two tokens.
inline std::vector<std::byte> golden_inputs(bool images) {
  std::vector<int32_t> ids;
  std::vector<float> pixels;
  for (int32_t b = 0; b < 2; ++b)
    for (int32_t i = 0; i < 4; ++i) ids.push_back((7 * i + 3) * (b + 1) % 37);
  for (int32_t i = 0; i < 2 * 2 * 8 * 8; ++i) pixels.push_back(static_cast<float>(i * 37 % 101 - 50) / 64);
  const auto* from = images ? reinterpret_cast<const std::byte*>(pixels.data())
                            : reinterpret_cast<const std::byte*>(ids.data());
  return {from, from + (images ? pixels.size() : ids.size()) * 4};
}

// Of the checkpoint STEP of runs/NAME.
inline std::vector<float> golden_logits(const std::string& name, int64_t step) {
  const std::string run = "runs/" + name;
  const launcher::RunConfig config =
      launcher::load_config(run + "/config.json", {}, launcher::DataPaths::may_be_empty);
  State state(solo_mesh(), 0);
  const models::Model model = launcher::build_model(config, state);
  state.allocate();
  for (Array* array : state.arrays()) {
    array->data = checkpoint::read_tensor(str(run, "/ckpt/step-", step), array->fqn).data;
    array->host_wrote();
  }
  const bool images = config.model.kind == "vit";
  const Shape shape = images ? Shape{2, 2, 8, 8} : Shape{2, 4};
  std::vector<compiler::BatchField> fields = {{model.inputs[0].name, model.inputs[0].dtype, shape}};
  std::vector<std::byte> given = golden_inputs(images);
  int32_t lengths[] = {4, 2}, segments[] = {0, 0, 1, 1, 0, 1, 0, 0};
  std::vector<void*> values = {given.data()};
  if (model.inputs.size() == 3) {
    fields.push_back({model.inputs[1].name, model.inputs[1].dtype, {2}});
    fields.push_back({model.inputs[2].name, model.inputs[2].dtype, {2, 4}});
    values.insert(values.end(), {lengths, segments});
  }
  compiler::Forward forward(
      state, fields,
      [&](const std::vector<Tensor>& in) {
        Evaluation evaluation;
        return model.forward(in)[0];
      },
      launcher::compile_options(config, 1));
  const auto* found = static_cast<const float*>(forward.run(values));
  return {found, found + numel(forward.result_shape())};
}

inline double largest_difference(const std::vector<float>& found, const std::vector<double>& expected) {
  LS_CHECK(found.size() == expected.size(), found.size(), " logits, and ", expected.size(), " are kept");
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(found[i] - expected[i]));
  return worst;
}

}  // namespace lockstep::tests
