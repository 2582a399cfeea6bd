// Reads checkpoints in a folder: their contents, and tensors as arrays.
#include "checkpoint/checkpoint.h"

#include "python/arrays.h"

namespace lockstep::python {

nb::object numpy_of(const void* data, DType dtype, const Shape& shape) {
  nb::object from = nb::module_::import_("numpy").attr("frombuffer");
  nb::object flat =
      from(nb::bytearray(data, static_cast<size_t>(numel(shape)) * size_of(dtype)), numpy_name(dtype));
  nb::object out = flat.attr("reshape")(nb::tuple(nb::cast(shape)));
  if (dtype != DType::bf16) return out;
  // NumPy has no bf16, so the numbers are returned exactly as float32.
  nb::object bits = out.attr("astype")("uint32");
  return nb::steal(PyNumber_Lshift(bits.ptr(), nb::int_(16).ptr())).attr("view")("float32");
}
nb::object numpy_of(const Array& array) {
  array.fetch();
  return numpy_of(array.data.data(), array.dtype, array.local_shape);
}

void bind_checkpoints(nb::module_& m) {
  m.def(
      "_named_checkpoints",
      [](const std::string& path) {
        const checkpoint::NamedCheckpoints named = checkpoint::named_checkpoints(path);
        return nb::make_tuple(named.kind == checkpoint::NamedCheckpoints::Kind::step, named.path);
      },
      nb::arg("path"));
  m.def(
      "_checkpoints",
      [](const std::string& folder) {
        nb::list out;
        for (const auto& of : checkpoint::newest_first(folder))
          out.append(nb::make_tuple(of.step, of.path, of.problem));
        return out;
      },
      nb::arg("folder"));
  m.def(
      "_tensors",
      [](const std::string& step_folder) {
        std::vector<std::string> out;
        for (const auto& tensor : checkpoint::read_manifest(step_folder).tensors) out.push_back(tensor.fqn);
        return out;
      },
      nb::arg("step_folder"));
  m.def(
      "_read_tensor",
      [](const std::string& step_folder, const std::string& name) {
        return numpy_of(checkpoint::read_tensor(step_folder, name));
      },
      nb::arg("step_folder"), nb::arg("name"));
  m.def(
      "_saved",
      [](const std::string& step_folder) {
        const checkpoint::Manifest manifest = checkpoint::read_manifest(step_folder);
        return nb::make_tuple(manifest.step, manifest.state_hash, manifest.certificate);
      },
      nb::arg("step_folder"));
}

}  // namespace lockstep::python
