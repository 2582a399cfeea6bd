// Initial weights from a safetensors file of any origin.
#include "checkpoint/agreement.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/io/read_safetensors.h"
#include "checkpoint/plan/fit.h"
#include "core/mesh/nonfinite.h"

namespace lockstep::checkpoint {

void load_safetensors(const std::string& path, const std::vector<Array*>& arrays, const LiveMesh& mesh,
                      Storage& storage) {
  raise(settle(*mesh.world, attempt([&] {
    auto file = storage.open(path);
    SafeTensorsHeader header = read_safetensors_header(*file, path);
    std::vector<NamedType> stored;
    for (const auto& tensor : header.tensors) stored.push_back({tensor.name, tensor.dtype, tensor.shape});
    std::string misfit = misfit_text(stored, path, types_of(arrays), "the model", true);
    if (!misfit.empty()) throw UserError(misfit);
    for (Array* array : arrays)
      for (const auto& tensor : header.tensors)
        if (tensor.name == array->fqn) read_safetensor(*file, tensor, *array);
  })));
  if (auto bad = find_nonfinite({arrays.begin(), arrays.end()}, mesh))
    throw UserError(str(path, ": ", bad->text(), "; weights must be finite numbers"));
}

}  // namespace lockstep::checkpoint
