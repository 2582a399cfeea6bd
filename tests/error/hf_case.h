// Kept models of Hugging Face, changed, and what is said of them.
#pragma once

#include <gtest/gtest.h>

#include <sstream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/tensor_files.h"
#include "core/base/error.h"
#include "launcher/hf/config.h"
#include "launcher/hf/export.h"
#include "launcher/hf/folder.h"
#include "launcher/hf/import.h"
#include "launcher/hf/weights.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher;

template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const UserError& error) { return error.what(); }
  return "accepted";
}
inline std::string kept(const std::string& name) { return LOCKSTEP_GOLDEN_HF "/" + name; }
inline Json config_of(const std::string& name) { return hf::open_folder(kept(name))->config; }

// The message for a kept config.json with other values.
inline std::string with(const std::string& name, const Json& changes,
                        const std::vector<std::string>& accept = {}) {
  Json config = config_of(name);
  config.update(changes);
  return refusal([&] { hf::model_of(config, "m/config.json", accept); });
}
inline std::string lines(const std::string& name, const std::string& text) {
  return "m/config.json (" + name + ") cannot be computed as it says:\n  " + text;
}

class HuggingFaceFolders : public testing::Test {
 protected:
  void SetUp() override {
    previous_ = std::filesystem::current_path();
    std::filesystem::current_path(scratch_.path(""));
  }
  void TearDown() override { std::filesystem::current_path(previous_); }

  // A file of safetensors with f32 tensors of these shapes, all `value`.
  std::string file(const std::string& name, const std::map<std::string, Shape>& shapes, float value = 0.5) {
    std::vector<checkpoint::SafeTensor> tensors;
    std::string data;
    for (const auto& [tensor, shape] : shapes) {
      tensors.push_back({.name = tensor, .dtype = DType::f32, .shape = shape});
      const std::vector<float> values(numel(shape), value);
      data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    }
    return scratch_.write(name, checkpoint::make_safetensors_header(tensors, {}) + data);
  }
  std::string imported(const std::string& path, std::vector<Override> overrides = {{"name", "run"}},
                       const hf::Choices& choices = {}) {
    return refusal([&] { hf::import_run({path, std::move(overrides), {}, choices}, said_); });
  }
  std::string exported(const hf::ExportRequest& request) {
    return refusal([&] { hf::export_run(request, said_); });
  }
  // The kept model under another name, to be changed.
  void copy(const std::string& name) { std::filesystem::copy(kept(name), "m"); }

  ScratchFolder scratch_;
  std::filesystem::path previous_;
  std::ostringstream said_;
};

}  // namespace lockstep
