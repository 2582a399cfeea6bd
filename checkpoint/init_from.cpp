// Initial weights from safetensors files of any origin.
#include "checkpoint/agreement.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/plan/fit.h"
#include "checkpoint/tensor_files.h"
#include "core/mesh/nonfinite.h"

namespace lockstep::checkpoint {

void load_safetensors(const std::string& path, const std::vector<Array*>& arrays, const LiveMesh& mesh,
                      Storage& storage) {
  raise(settle(*mesh.world, attempt([&] {
    const TensorFiles files(path, storage);
    std::string misfit = misfit_text(files.types(), files.path(), types_of(arrays), "the model", true);
    if (!misfit.empty()) throw UserError(misfit);
    for (Array* array : arrays) files.read(array->fqn, *array);
  })));
  if (auto bad = find_nonfinite({arrays.begin(), arrays.end()}, mesh))
    throw UserError(str(path, ": ", bad->text(), "; weights must be finite numbers"));
}

}  // namespace lockstep::checkpoint
