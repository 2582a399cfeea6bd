// The built-in rooflines, by name and by device.
#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/reading/given_text.h"
#include "core/reading/json_text.h"
#include "launcher/machine/roofline.h"

namespace lockstep::launcher {

namespace {
// Products reach 550 to 820 TFLOP/s in bf16 by shape, in float8 780 to 1,250, in fp32 86 to 119. Memory: 4.0
// TB/s and more in kernels that stream. Links inside a node: the all-to-all of bench-gpu-exchange on 4 GPUs.
// Links across nodes are not measured: four fifths of one 400 Gb/s adapter per GPU. Link to the host: the
// moments of GPT-2 1558M, both directions at once (53 GB/s).
Roofline h200() {
  return {.name = "h200",
          .contraction = {{"fp32", 9.5e13}, {"tf32", 3.4e14}, {"bf16", 6.4e14}, {"float8", 1.03e15}},
          .attention = {{"fp32", 3.6e13}, {"tf32", 9.5e13}, {"bf16", 3.2e14}},
          .memory = 4.0e12,
          .capacity = int64_t{140} << 30,
          .launch = 2e-6,
          .inside = {3.3e11, 4e-5},
          .across = {4e10, 6e-5},
          .host = {5.3e10, 1e-5},
          .ranks_per_node = 8,
          .cores = 0,
          .measured_on = "H200 SXM, 1 to 4 of one node"};
}

// Devices without measurements: the public data sheet's values for dense products, memory and links, times
// the share of its own sheet that an H200 reaches (bf16 0.65, tf32 0.69, float8 0.52, memory 0.83, NVLink
// 0.73). fp32: nine tenths, unless it is computed by six bf16 products. Links across nodes: four fifths of
// the adapter per GPU in the sheet's eight-GPU host.
constexpr const char* kSheet = "not measured: the public data sheet, at an H200's share of its own";

// Products like an H200's: 989 TFLOP/s in bf16. 80 GB at 3.35 TB/s, NVLink 450 GB/s each way, 400 Gb/s.
Roofline h100() {
  Roofline out = h200();
  out.name = "h100", out.memory = 2.8e12, out.capacity = int64_t{79} << 30;
  out.measured_on = kSheet;
  return out;
}
// 312 TFLOP/s in bf16, 156 in tf32, 19.5 in fp32; 80 GB at 2.04 TB/s; NVLink 300 GB/s each way, 200 Gb/s.
Roofline a100() {
  return {.name = "a100",
          .contraction = {{"fp32", 1.75e13}, {"tf32", 1.08e14}, {"bf16", 2.0e14}},
          .attention = {{"fp32", 6.6e12}, {"tf32", 3.0e13}, {"bf16", 1.0e14}},
          .memory = 1.7e12,
          .capacity = int64_t{79} << 30,
          .launch = 2e-6,
          .inside = {2.2e11, 4e-5},
          .across = {2e10, 6e-5},
          .host = {2.5e10, 1e-5},
          .ranks_per_node = 8,
          .cores = 0,
          .measured_on = kSheet};
}
// 2,250 TFLOP/s in bf16, 1,125 in tf32, 4,500 in float8, 80 in fp32; 180 GB at 8 TB/s; NVLink 900 GB/s each
// way, 400 Gb/s.
Roofline b200() {
  return {.name = "b200",
          .contraction = {{"fp32", 7.2e13}, {"tf32", 7.8e14}, {"bf16", 1.46e15}, {"float8", 2.3e15}},
          .attention = {{"fp32", 2.7e13}, {"tf32", 2.2e14}, {"bf16", 7.3e14}},
          .memory = 6.6e12,
          .capacity = int64_t{167} << 30,
          .launch = 2e-6,
          .inside = {6.6e11, 4e-5},
          .across = {4e10, 6e-5},
          .host = {5.3e10, 1e-5},
          .ranks_per_node = 8,
          .cores = 0,
          .measured_on = kSheet};
}

// From bench-step (6 layers, 384 wide, 16 x 256 tokens: 1.06 s) and the quickstart (29.8k tokens/s on 2
// ranks); links as MPI's shared memory.
Roofline cpu() {
  return {.name = "cpu",
          .contraction = {{"fp32", 3.6e11}, {"bf16", 2.4e11}},
          .attention = {{"fp32", 1.5e11}, {"bf16", 1.2e11}},
          .kernels = 6e10,
          .memory = 2e10,
          .launch = 5e-6,
          .inside = {2.0e9, 1e-4},
          .across = {1.0e9, 2e-4},
          .ranks_per_node = 64,
          .cores = 2,
          .measured_on = "2 cores of a server processor with AVX-512, one host"};
}

struct Known {
  const char* name;
  Roofline (*make)();
};
constexpr Known kKnown[] = {{"h200", h200}, {"b200", b200}, {"h100", h100}, {"a100", a100}, {"cpu", cpu}};
}  // namespace

std::vector<std::string> roofline_names() {
  std::vector<std::string> out;
  for (const Known& known : kKnown) out.emplace_back(known.name);
  return out;
}

Roofline roofline_named(const std::string& word) {
  for (const Known& known : kKnown)
    if (word == known.name) return known.make();
  const GivenText file = read_given(word, kJsonBytes);
  if (!file.problem.empty()) {
    const std::vector<std::string> names = roofline_names();
    const std::string near = nearest(word, names);
    throw UserError(str("--roofline is \"", word, "\", which is none of ", join(names, ", "),
                        " and no file that can be read",
                        near.empty() ? "; a file holds name, contraction, memory, inside and ranks_per_node"
                                     : str("; did you mean ", near, "?")));
  }
  return parse_roofline(file.text, word);
}

std::string roofline_of(const Device& device) {
  if (device.kind() == "cpu") return "cpu";
  if (device.kind() != "cuda") return "";
  std::string words = device.describe();
  std::transform(words.begin(), words.end(), words.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Known& known : kKnown)
    if (words.find(known.name) != std::string::npos) return known.name;
  return "";
}

}  // namespace lockstep::launcher
