// Exports adapters under PEFT's names.
#include "launcher/hf/adapters.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/checkpoint.h"
#include "core/base/error.h"
#include "core/files/private_file.h"
#include "core/files/unfinished.h"

namespace lockstep::launcher::hf {

using namespace checkpoint;

namespace {
constexpr std::string_view kPrefix = "base_model.model.";

std::string module_of(const std::string& name) { return name.substr(0, name.rfind('.')); }
void add_once(std::vector<std::string>& to, const std::string& name) {
  if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
}
Json or_null(const std::vector<std::string>& names) { return names.empty() ? Json() : Json(names); }

Outgoing outgoing(const std::string& fqn, const Part& part, DType dtype, const ReadTensor& read) {
  return {{.name = part.theirs, .dtype = dtype, .shape = part.shape},
          [=] { return part_of(read(fqn), part, dtype); }};
}
}  // namespace

void write_tensors(const std::string& path, const std::vector<Outgoing>& tensors) {
  std::vector<SafeTensor> header;
  for (const auto& tensor : tensors) header.push_back(tensor.header);
  const std::string first = make_safetensors_header(header, {{"format", "pt"}});
  const std::string draft = draft_of(path);
  Unfinished made(Unfinished::Kind::entry, draft);
  auto file = shared_file_storage().create(draft);
  file->write(first.data(), first.size());
  for (const auto& tensor : tensors) {
    const std::vector<std::byte> bytes = tensor.bytes();
    file->write(bytes.data(), bytes.size());
  }
  file->sync();
  file->close();
  shared_file_storage().rename(draft, path);
  made.keep();
}

AdapterFiles adapter_files(const HfFamily& family, const RunConfig& config, const State& state, DType dtype,
                           const std::string& base, const ReadTensor& read) {
  AdapterFiles out;
  std::vector<std::string> targets, whole;
  bool transposed = false;
  for (const Spec& spec : state.specs()) {
    if (spec.role != Role::parameter || spec.adapter) continue;
    for (const Part& part : parts_of(family, spec.fqn, spec.shape)) {
      if (spec.trainable) add_once(whole, module_of(part.theirs));
      if (!spec.low_rank) continue;
      const std::string module = module_of(part.theirs);
      const Parameter &a = spec.low_rank->a, &b = spec.low_rank->b;
      targets.push_back(module);
      transposed = transposed || part.how == How::transposed;
      out.tensors.push_back(
          outgoing(a.fqn(), {str(kPrefix, module, ".lora_A.weight"), a.shape()}, dtype, read));
      Part rows{str(kPrefix, module, ".lora_B.weight"), b.shape()};
      if (part.how == How::rows) rows.how = How::rows, rows.part = part.part, rows.parts = part.parts;
      rows.shape[0] /= rows.parts;
      out.tensors.push_back(outgoing(b.fqn(), rows, dtype, read));
    }
  }
  for (const Spec& spec : state.specs()) {
    if (spec.role != Role::parameter || spec.adapter) continue;
    for (Part part : parts_of(family, spec.fqn, spec.shape)) {
      if (std::find(whole.begin(), whole.end(), module_of(part.theirs)) == whole.end()) continue;
      part.theirs = str(kPrefix, part.theirs);
      out.tensors.push_back(outgoing(spec.fqn, part, dtype, read));
    }
  }
  const double alpha = config.train.lora.alpha;
  out.config = {{"peft_type", "LORA"},
                {"task_type", family.generates ? Json("CAUSAL_LM") : Json()},
                {"base_model_name_or_path", base.empty() ? Json() : Json(base)},
                {"r", config.train.lora.rank},
                {"lora_alpha", alpha == std::trunc(alpha) ? Json(static_cast<int64_t>(alpha)) : Json(alpha)},
                {"lora_dropout", config.train.lora.dropout},
                {"target_modules", targets},
                {"modules_to_save", or_null(whole)},
                {"fan_in_fan_out", transposed},
                {"bias", "none"},
                {"use_rslora", false},
                {"use_dora", false},
                {"init_lora_weights", true},
                {"inference_mode", true}};
  return out;
}

}  // namespace lockstep::launcher::hf
