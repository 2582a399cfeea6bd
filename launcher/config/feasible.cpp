// Checks a config against a mesh.
#include "launcher/config/feasible.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/models/family.h"

namespace lockstep::launcher {

namespace {
using Errors = std::vector<std::string>;

void on_tp(const RunConfig& c, int64_t tp, Errors& errors) {
  for (const auto& [what, size] : models::family(c.model.kind).split_sizes(model_options(c)))
    add_multiple(errors, what, size, "the mesh's tp size", tp);
}

void without_meaning(const RunConfig& c, const char* path, const std::string& where, Errors& errors) {
  const auto* row = find_key(path);
  if (!row) return;
  if (Json value = get_key(c, *row); value != row->fallback)
    errors.push_back(str(path, " is ", value.dump(), ", but ", where,
                         "; leave it out, or name dp_shard in mesh.dim_names"));
}

// All sizes whose product is `ranks`, for dims from `dim` on.
void factorizations(int64_t ranks, size_t dim, Shape& sizes, std::vector<Shape>& out) {
  if (dim + 1 == sizes.size()) {
    sizes[dim] = ranks;
    out.push_back(sizes);
    return;
  }
  for (int64_t size = 1; size <= ranks; ++size)
    if (ranks % size == 0) {
      sizes[dim] = size;
      factorizations(ranks / size, dim + 1, sizes, out);
    }
}
}  // namespace

std::vector<std::string> mesh_errors(const RunConfig& c, const Mesh& mesh) {
  Errors errors;
  if (int64_t tp = mesh.size("tp"); tp > 1) on_tp(c, tp, errors);
  for (const char* dim : {"pp", "cp"})
    if (int64_t size = mesh.size(dim); size > 1)
      errors.push_back(str("mesh dim ", dim, " has size ", size, ": this version splits no ",
                           dim[0] == 'p' ? "layers" : "sequences", " over ranks; make it 1"));
  if (mesh.find("dp_shard") < 0)  // with a dp_shard of one rank, the config is meant for more ranks
    for (const char* path : {"mesh.zero", "mesh.reshard_after_forward"})
      without_meaning(c, path, str("the mesh ", text(mesh), " has no dim dp_shard"), errors);
  return errors;
}

std::optional<Mesh> nearest_working(const RunConfig& config, const Mesh& mesh) {
  Mesh from = mesh;
  const bool data = std::any_of(from.dim_names.begin(), from.dim_names.end(),
                                [](const auto& name) { return is_data_dim(name); });
  if (!data) {
    from.dim_names.insert(from.dim_names.begin(), "dp_replicate");
    from.shape.insert(from.shape.begin(), 1);
  }
  // Tries all factorizations of the rank count in order of distance. They are generated in ascending order of
  // the earlier dims, so the stable sort keeps ties with larger later dims first.
  std::vector<Shape> all;
  Shape sizes(from.shape.size(), 1);
  factorizations(mesh.size(), 0, sizes, all);
  auto distance = [&](const Shape& shape) {
    double sum = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      sum += std::abs(std::log2(static_cast<double>(shape[d]) / static_cast<double>(from.shape[d])));
    return sum;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Shape& a, const Shape& b) { return distance(a) < distance(b) - 1e-9; });
  for (const Shape& shape : all) {
    Mesh other{shape, from.dim_names};
    if (!(other == mesh) && mesh_errors(config, other).empty()) return other;
  }
  return {};
}

Mesh validate(const RunConfig& c, int64_t world_size) {
  Mesh mesh = resolve_mesh(c.mesh.shape, c.mesh.dim_names, world_size);
  Errors errors = mesh_errors(c, mesh);
  if (errors.empty()) return mesh;
  std::string way;
  if (auto other = nearest_working(c, mesh))
    way = str("the nearest mesh that works is ", text(*other), ": --mesh.shape=", str(other->shape),
              other->dim_names == mesh.dim_names
                  ? ""
                  : str(" --mesh.dim_names=[", join(other->dim_names, ","), "]"));
  else
    way = "no mesh of as many ranks and these dims works";
  if (errors.size() == 1) throw UserError(str("on the mesh ", text(mesh), ": ", errors[0], "; ", way));
  throw UserError(str("on the mesh ", text(mesh), ": ", errors.size(), " reasons\n  ", join(errors, "\n  "),
                      "\n  ", way));
}

}  // namespace lockstep::launcher
