// Computes the bytes of a step on a device, finds the nearest config that fits, and describes both.
#include "launcher/memory/needs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace lockstep::launcher {

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

std::vector<MemoryPart> MemoryNeeds::largest_first() const {
  std::vector<MemoryPart> out = parts;
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

int64_t communicators(const Mesh& mesh, int seats) {
  int64_t dims = 0, data = 0;
  for (int i = 0; i < mesh.ndim(); ++i) {
    if (mesh.shape[i] < 2) continue;
    ++dims;
    if (is_data_dim(mesh.dim_names[i])) ++data;
  }
  int64_t of_hosts = 0;
  if (seats) {
    const NodeRanks ranks = node_ranks(mesh, 0, seats);
    of_hosts = (dim_of(mesh, 0, ranks.inside) < 0) + (dim_of(mesh, 0, ranks.across) < 0);
  }
  return dims + (data > 1 ? 1 : 0) + of_hosts;
}

MemoryNeeds device_needs(const State& state, const StepBytes& step, const LibraryBounds& bounds) {
  const Mesh& mesh = state.mesh().words;
  int64_t weights = 0, moments = 0, others = 0, on_host = 0;
  for (const auto& spec : state.specs()) {
    int64_t elements = numel(padded_local_shape(state.layout(spec.fqn), mesh, spec.shape));
    int64_t bytes = elements * static_cast<int64_t>(size_of(spec.dtype));
    if (bounds.own_memory && step.on_host.count(spec.fqn)) {
      on_host += bytes;
      continue;
    }
    (spec.role == Role::parameter ? weights : spec.role == Role::moment ? moments : others) += bytes;
  }
  int64_t groups = communicators(mesh, state.mesh().seats);
  MemoryNeeds needs{
      .parts = {}, .on_host = on_host, .away = bounds.own_memory ? step.away : 0, .lent = step.lent};
  auto add = [&](std::string name, int64_t bytes, bool bound = false) {
    if (bytes) needs.parts.push_back({std::move(name), bytes, bound});
  };
  add("weights", weights);
  add("moments", moments);
  add("other state", others);
  add("copies of weights", step.copies);
  add("activations", step.arena);
  if (!bounds.own_memory) add("activations that wait", step.away);
  add("batches", step.batches);
  add("evaluation", step.evaluation);
  add("gradients", step.reduction);
  add("library workspaces", bounds.workspace, true);
  add("driver and libraries", bounds.context + bounds.libraries, true);
  add(str("communicators (", groups, ")"), groups * bounds.communicator, true);
  return needs;
}

std::vector<Mesh> nearby_meshes(const Mesh& mesh) {
  std::vector<Mesh> out{mesh};
  auto add = [&](const Mesh& other) {
    if (std::find(out.begin(), out.end(), other) == out.end()) out.push_back(other);
  };
  Mesh both = mesh;  // with both data dims
  if (both.find("dp_shard") < 0) {
    const int at = both.find("dp_replicate");
    const auto place = at < 0 ? 0 : at + 1;
    both.dim_names.insert(both.dim_names.begin() + place, "dp_shard");
    both.shape.insert(both.shape.begin() + place, 1);
  }
  const size_t shard = both.find("dp_shard");
  const int replicate = both.find("dp_replicate");
  auto all_sharded = [&](Mesh from) {
    if (replicate >= 0) {
      from.shape[shard] *= from.shape[replicate];
      from.shape[replicate] = 1;
    }
    return from;
  };
  for (Mesh moved = both; replicate >= 0 && moved.shape[replicate] % 2 == 0;) {
    moved.shape[replicate] /= 2;
    moved.shape[shard] *= 2;
    add(moved);
  }
  if (all_sharded(both) != both) add(all_sharded(both));
  for (int64_t factor : {2, 4, 8}) {
    Mesh more = mesh;
    int largest = -1;
    for (int d = 0; d < more.ndim(); ++d)
      if (is_data_dim(more.dim_names[d]) && (largest < 0 || more.shape[d] > more.shape[largest])) largest = d;
    if (largest >= 0) more.shape[largest] *= factor, add(more);
    Mesh sharded = all_sharded(both);
    sharded.shape[shard] *= factor;
    add(sharded);
  }
  return out;
}

namespace {
// The largest of `divisors` (descending) that fits on a mesh.
std::optional<Fit> largest_fit(const std::vector<int64_t>& divisors, const Mesh& mesh, int64_t available,
                               const std::function<std::optional<int64_t>(int64_t, const Mesh&)>& bytes_of) {
  if (divisors.empty()) return {};
  auto try_one = [&](int64_t micro) -> std::optional<Fit> {
    auto bytes = bytes_of(micro, mesh);
    if (!bytes || *bytes > available) return {};
    return Fit{micro, mesh.size(), *bytes};
  };
  auto least = try_one(divisors.back());  // if the smallest does not fit, none does
  if (!least || divisors.size() == 1) return least;
  for (size_t i = 0; i + 1 < divisors.size(); ++i)
    if (auto fit = try_one(divisors[i])) return fit;
  return least;
}
}  // namespace

std::optional<Fit> nearest_fit(
    int64_t micro, const std::vector<Mesh>& meshes, int64_t available,
    const std::function<std::optional<int64_t>(int64_t micro, const Mesh& mesh)>& bytes_of) {
  std::vector<int64_t> divisors;
  for (int64_t d = micro - 1; d >= 1; --d)
    if (micro % d == 0) divisors.push_back(d);
  // The last mesh that divides the batch splits the state most. If the least micro-batch does not fit there, it
  // fits nowhere: activations are those of a micro-batch on every mesh.
  for (size_t i = meshes.size(); i-- > 0;)
    if (const auto least = bytes_of(divisors.empty() ? micro : divisors.back(), meshes[i])) {
      if (*least > available) return {};
      break;
    }
  // On the first mesh only a smaller micro-batch can help. Other meshes may also fit with the present one.
  for (size_t i = 0; i < meshes.size(); ++i) {
    if (i == 1) divisors.insert(divisors.begin(), micro);
    auto fit = largest_fit(divisors, meshes[i], available, bytes_of);
    if (!fit) continue;
    if (meshes[i].ndim() > 1 || meshes[i].dim_names != meshes[0].dim_names) fit->mesh = text(meshes[i]);
    return fit;
  }
  return {};
}

namespace {
std::string row(const std::string& name, const std::string& value) {
  return str("  ", name, std::string(name.size() < 26 ? 26 - name.size() : 1, ' '), value, "\n");
}
std::string sized(int64_t bytes) {
  return str(bytes, " bytes (", bytes_text(static_cast<double>(bytes)), ")");
}
std::string ranks_text(int64_t ranks) { return str(ranks, ranks == 1 ? " rank" : " ranks"); }
}  // namespace

std::string budget_word(int64_t bytes) {
  constexpr int64_t kib = 1024, mib = 1024 * kib, gib = 1024 * mib;
  if (bytes >= 4 * gib) return str(bytes * 10 / gib / 10, ".", bytes * 10 / gib % 10, "GiB");
  return bytes >= 16 * mib ? str(bytes / mib, "MiB") : str(std::max<int64_t>(1, bytes / kib), "KiB");
}

std::string text(const Fit& fit) {
  const std::string bytes = str(" (", bytes_text(static_cast<double>(fit.bytes)), ")");
  if (!fit.budget.empty()) return str("compile.memory_budget ", fit.budget, ", with the same bits", bytes);
  return str("batch.micro ", fit.micro, " on ", ranks_text(fit.ranks),
             fit.mesh.empty() ? "" : str(", mesh ", fit.mesh), bytes);
}

std::string memory_table(const MemoryNeeds& needs, int64_t available, const std::string& has) {
  std::string out;
  for (const auto& part : needs.largest_first())
    out += row(part.name, str(part.bound ? "at most " : "", sized(part.bytes)));
  int64_t total = needs.total();
  out += row("together", str(total > needs.exact() ? "at most " : "", sized(total)));
  if (needs.lent) out += row("evaluation, within it", sized(needs.lent));
  if (needs.on_host) out += row("moments on the host", sized(needs.on_host));
  if (needs.away) out += row("activations on the host", sized(needs.away));
  if (available > 0) {
    char share[64];
    std::snprintf(share, sizeof share, ", %.1f %% of it is needed",
                  100.0 * static_cast<double>(total) / static_cast<double>(available));
    out += row(has, sized(available) + share);
  }
  return out;
}

std::string too_large(const std::string& name, int64_t ranks, const MemoryNeeds& needs, int64_t available) {
  auto most = std::max_element(needs.parts.begin(), needs.parts.end(),
                               [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  auto text_of = [](int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::string out = str(name, " does not fit on ", ranks_text(ranks), ": the fullest one needs ",
                        text_of(needs.total()), " of the ", text_of(available), " of its device");
  if (most != needs.parts.end()) out += str(", most of it for ", most->name, " (", text_of(most->bytes), ")");
  return out;
}

std::string does_not_fit(const std::string& name, int64_t micro, int64_t ranks, const MemoryNeeds& needs,
                         int64_t available, const std::optional<Fit>& fit) {
  auto text_of = [](int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::string out = too_large(name, ranks, needs, available);
  if (!fit)
    return out +
           "; no smaller batch.micro fits, on up to 8 times the ranks either: choose a smaller model or a "
           "larger device";
  out += "; ";
  if (!fit->budget.empty())
    return out + str("compile.memory_budget ", fit->budget, " fits, with the same bits (",
                     text_of(fit->bytes), ")");
  if (!fit->mesh.empty())
    return out + str("batch.micro ", fit->micro, " on ", ranks_text(fit->ranks), ", mesh ", fit->mesh,
                     ", fits (", text_of(fit->bytes), ")");
  if (fit->micro != micro) out += str("batch.micro ", fit->micro, fit->ranks == ranks ? " fits" : " on ");
  if (fit->ranks != ranks)
    out +=
        str(ranks_text(fit->ranks), fit->micro == micro ? str(" with batch.micro ", micro, " fit") : " fits");
  return out + str(" (", text_of(fit->bytes), ")");
}

int64_t parse_memory(const std::string& text) {
  if (auto bytes = parse_bytes(text)) return *bytes;
  throw UserError(
      str("memory is \"", text,
          "\"; give bytes, or a number with a unit (MB, GB, TB, MiB, GiB, TiB), as in 141GB or 80GiB"));
}

}  // namespace lockstep::launcher
