// Bytes of a step on a device, the nearest config that fits, and their words.
#include "launcher/memory/needs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace lockstep {

int64_t MemoryNeeds::total() const {
  int64_t sum = 0;
  for (const auto& part : parts) sum += part.bytes;
  return sum;
}

int64_t MemoryNeeds::exact() const {
  int64_t sum = 0;
  for (const auto& part : parts) sum += part.bound ? 0 : part.bytes;
  return sum;
}

int64_t communicators(const Mesh& mesh) {
  int64_t dims = 0, data = 0;
  for (int i = 0; i < mesh.ndim(); ++i) {
    if (mesh.shape[static_cast<size_t>(i)] < 2) continue;
    ++dims;
    if (is_data_dim(mesh.dim_names[static_cast<size_t>(i)])) ++data;
  }
  return dims + (data > 1 ? 1 : 0);
}

MemoryNeeds device_needs(const State& state, const StepBytes& step, const LibraryBounds& bounds) {
  const Mesh& mesh = state.mesh().words;
  int64_t weights = 0, moments = 0, others = 0;
  for (const auto& spec : state.specs()) {
    int64_t elements = numel(padded_local_shape(state.layout(spec.fqn), mesh, spec.shape));
    int64_t bytes = elements * static_cast<int64_t>(size_of(spec.dtype));
    (spec.role == Role::parameter ? weights : spec.role == Role::moment ? moments : others) += bytes;
  }
  int64_t groups = communicators(mesh);
  MemoryNeeds needs;
  auto add = [&](std::string name, int64_t bytes, bool bound = false) {
    if (bytes) needs.parts.push_back({std::move(name), bytes, bound});
  };
  add("weights", weights);
  add("moments", moments);
  add("other state", others);
  add("bf16 copies of weights", step.copies);
  add("activations", step.arena);
  add("batches", step.batches);
  add("evaluation", step.evaluation);
  add("gradients", step.reduction);
  add("library workspaces", bounds.workspace, true);
  add("driver and libraries", bounds.context + bounds.libraries, true);
  add(str("communicators (", groups, ")"), groups * bounds.communicator, true);
  return needs;
}

namespace {
// The largest of `divisors` (descending) that fits on `ranks`.
std::optional<Fit> largest_fit(const std::vector<int64_t>& divisors, int64_t ranks, int64_t available,
                               const std::function<std::optional<int64_t>(int64_t, int64_t)>& bytes_of) {
  if (divisors.empty()) return {};
  auto try_one = [&](int64_t micro) -> std::optional<Fit> {
    auto bytes = bytes_of(micro, ranks);
    if (!bytes || *bytes > available) return {};
    return Fit{micro, ranks, *bytes};
  };
  auto least = try_one(divisors.back());  // where the smallest does not fit, none does
  if (!least || divisors.size() == 1) return least;
  for (size_t i = 0; i + 1 < divisors.size(); ++i)
    if (auto fit = try_one(divisors[i])) return fit;
  return least;
}
}  // namespace

std::optional<Fit> nearest_fit(int64_t micro, int64_t ranks, int64_t available,
                               const std::function<std::optional<int64_t>(int64_t micro, int64_t ranks)>& bytes_of) {
  std::vector<int64_t> divisors;
  for (int64_t d = micro - 1; d >= 1; --d)
    if (micro % d == 0) divisors.push_back(d);
  if (auto fit = largest_fit(divisors, ranks, available, bytes_of)) return fit;
  divisors.insert(divisors.begin(), micro);
  for (int64_t factor : {2, 4, 8})
    if (auto fit = largest_fit(divisors, factor * ranks, available, bytes_of)) return fit;
  return {};
}

namespace {
std::string row(const std::string& name, const std::string& value) {
  return str("  ", name, std::string(name.size() < 26 ? 26 - name.size() : 1, ' '), value, "\n");
}
std::string sized(int64_t bytes) { return str(bytes, " bytes (", bytes_text(static_cast<double>(bytes)), ")"); }
std::string ranks_text(int64_t ranks) { return str(ranks, ranks == 1 ? " rank" : " ranks"); }
}  // namespace

std::string memory_table(const MemoryNeeds& needs, int64_t available, const std::string& has) {
  std::string out;
  for (const auto& part : needs.parts) out += row(part.name, str(part.bound ? "at most " : "", sized(part.bytes)));
  int64_t total = needs.total();
  out += row("together", str(total > needs.exact() ? "at most " : "", sized(total)));
  if (available > 0) {
    char share[64];
    std::snprintf(share, sizeof share, ", %.1f %% of it is needed", 100.0 * static_cast<double>(total) / static_cast<double>(available));
    out += row(has, sized(available) + share);
  }
  return out;
}

std::string does_not_fit(const std::string& name, int64_t micro, int64_t ranks, const MemoryNeeds& needs, int64_t available,
                         const std::optional<Fit>& fit) {
  auto most = std::max_element(needs.parts.begin(), needs.parts.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  auto text_of = [](int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::string out = str(name, " does not fit on ", ranks_text(ranks), ": the fullest one needs ", text_of(needs.total()), " of the ",
                        text_of(available), " of its device");
  if (most != needs.parts.end()) out += str(", most of it for ", most->name, " (", text_of(most->bytes), ")");
  if (!fit) return out + "; no smaller batch.micro fits, on up to 8 times the ranks either: choose a smaller model or a larger device";
  out += "; ";
  if (fit->micro != micro) out += str("batch.micro ", fit->micro, fit->ranks == ranks ? " fits" : " on ");
  if (fit->ranks != ranks) out += str(ranks_text(fit->ranks), fit->micro == micro ? str(" with batch.micro ", micro, " fit") : " fits");
  return out + str(" (", text_of(fit->bytes), ")");
}

int64_t parse_memory(const std::string& text) {
  if (auto bytes = parse_bytes(text)) return *bytes;
  throw UserError(str("memory is \"", text, "\"; give bytes, or a number with a unit (MB, GB, TB, MiB, GiB, TiB), as in 141GB or 80GiB"));
}

}  // namespace lockstep
