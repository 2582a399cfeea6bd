// Sources of CUDA kernels, and the units in which they are compiled.
#include "compiler/codegen/cuda/loops/kernels.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/codegen/cuda/loops/nest.h"
#include "compiler/codegen/cuda/loops/prelude.h"
#include "compiler/codegen/cuda/sums/reductions_source.h"
#include "compiler/codegen/loops/kernel_body.h"
#include "compiler/codegen/statements/own_source.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/ir/print.h"
#include "core/table/register.h"

namespace lockstep::compiler::cuda {

namespace {
KernelSource own_kernel(const Graph& body, int64_t together) {
  constexpr int64_t kBlock = 128;
  const std::string& source = op_row(body.nodes[0].op).own->definition.cuda;
  std::vector<std::string> pointers, parameters;
  for (size_t i = 0; i < body.nodes[0].inputs.size() + body.nodes[0].outputs.size(); ++i) {
    pointers.push_back(str("a", i));
    parameters.push_back(str("void* a", i, ", "));
  }
  KernelSource out;
  out.name = str("c_", hash_hex(print(body, {.source_lines = false}) + source));
  const codegen::OwnText text =
      codegen::own_text(body, source, out.name, "static __device__ inline", pointers);
  const RunParameter runs = run_parameter(out.name, pointers, "workspace", together);
  out.text = str(text.definitions, runs.type, "extern \"C\" __global__ void ", out.name, "(",
                 join(parameters, ""), "void* workspace", runs.parameter, ") {\n", runs.moves, text.arguments,
                 "  const long item = (long)blockIdx.x * blockDim.x + threadIdx.x;\n  if (item < ",
                 text.items, ") ", text.call, "\n}\n");
  out.flops = static_cast<double>(text.items);
  nlohmann::json launch{{"functions", nlohmann::json::array()},
                        {"aligned", std::vector<int>(pointers.size(), 1)}};
  if (together > 1) launch["together"] = true;
  if (text.items > 0)
    launch["functions"].push_back(
        {{"name", out.name}, {"grid", (text.items + kBlock - 1) / kBlock}, {"block", kBlock}, {"shared", 0}});
  out.launch = launch.dump();
  return out;
}
}  // namespace

KernelSource generate_kernel(const Graph& body, int64_t together) {
  if (codegen::own_node(body)) return own_kernel(body, together);
  const codegen::KernelBody made = codegen::kernel_body(body, "c_");
  auto written = [&](const std::string& name, int64_t runs) {
    KernelSource out;
    out.name = name;
    KernelText kernel = kernel_text(made.graph, made.plan, name, runs);
    out.text = std::move(kernel.text);
    out.workspace = kernel.workspace;
    out.begins = made.begins;
    out.flops = made.flops();
    nlohmann::json launch{{"functions", nlohmann::json::array()}, {"aligned", kernel.aligned}};
    if (runs > 1) launch["together"] = true;
    for (const Function& function : kernel.functions)
      launch["functions"].push_back({{"name", function.name},
                                     {"grid", function.grid},
                                     {"block", function.block},
                                     {"shared", function.shared}});
    out.launch = launch.dump();
    return out;
  };
  std::string name = made.name;
  if (made.reads_parts()) {
    const KernelSource nameless = written("", 1);
    name = str("c_", hash_hex(nameless.text + nameless.launch));
  }
  if (together > 1 && made.plan.column_reductions) name += str("_of_", together);
  KernelSource out = written(name, together);
  if (logs::enabled("source")) logs::topic("source", made.described + out.text);
  return out;
}

std::string generator_version() {
  static const std::string text =
      str(kGeneratorVersion, ".",
          hash_hex(str(kernel_prelude(), reductions_source(), sum_source({0, 1, 0, 2}))).substr(0, 16));
  return text;
}

std::string kernel_unit(const std::vector<KernelSource>& sources) {
  std::string out = kernel_prelude();
  for (const auto& source : sources) out += source.text;
  return out;
}

std::vector<std::vector<KernelSource>> kernel_units(std::vector<KernelSource> sources) {
  constexpr size_t kUnitText = 120000, kMostUnits = 32;  // approximate characters of a unit
  std::sort(sources.begin(), sources.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  sources.erase(std::unique(sources.begin(), sources.end(),
                            [](const auto& a, const auto& b) { return a.name == b.name; }),
                sources.end());
  size_t all = 0;
  for (const auto& source : sources) all += source.text.size();
  const size_t count = std::clamp<size_t>(
      std::max((all + kUnitText - 1) / kUnitText, std::min<size_t>(8, (sources.size() + 3) / 4)), 1,
      kMostUnits);
  std::stable_sort(sources.begin(), sources.end(),
                   [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
  std::vector<std::vector<KernelSource>> units(count);
  std::vector<size_t> sizes(count, 0);
  for (auto& source : sources) {
    const size_t least = std::min_element(sizes.begin(), sizes.end()) - sizes.begin();
    sizes[least] += source.text.size();
    units[least].push_back(std::move(source));
  }
  return units;
}

}  // namespace lockstep::compiler::cuda
