// The three kinds of error as Python exceptions, the user's line, and the end of a rank by an uncaught
// exception.
#include <filesystem>

#include "launcher/supervise/worker/side.h"
#include "python/binding.h"

namespace lockstep::python {

namespace {
// The folder of the package: frames in it are not the user's.
const std::string& package_folder() {
  static const std::string folder = [] {
    nb::object file = nb::module_::import_("lockstep").attr("__file__");
    return std::filesystem::path(nb::cast<std::string>(file)).parent_path().string() + "/";
  }();
  return folder;
}
}  // namespace

SourceLine python_line() {
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  nb::object held = nb::borrow(reinterpret_cast<PyObject*>(frame));
  while (held.is_valid() && !held.is_none()) {
    auto* at = reinterpret_cast<PyFrameObject*>(held.ptr());
    nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    const std::string file = nb::cast<std::string>(code.attr("co_filename"));
    if (file.rfind(package_folder(), 0) != 0) return {file, PyFrame_GetLineNumber(at), ""};
    held = held.attr("f_back");
  }
  return {"?", 0, ""};
}

void throw_if_ours(const nb::python_error& error) {
  if (error.matches(nb::module_::import_("lockstep").attr("UserError")))
    throw UserError(nb::cast<std::string>(nb::str(error.value())));
}

void bind_errors(nb::module_& m) {
  nb::object base = nb::exception<Error>(m, "Error");
  base.attr("__doc__") = "The base of Lockstep's errors: UserError, PeerError and InternalError.";
  nb::exception<UserError>(m, "UserError", base.ptr()).attr("__doc__") =
      "The input is wrong: the message names the thing, the line and the way out. The rank exits with "
      "code 2.";
  nb::exception<PeerError>(m, "PeerError", base.ptr()).attr("__doc__") =
      "A rank died, hangs or disagrees. The rank exits with code 75, and trainrun may restart the run.";
  nb::exception<InternalError>(m, "InternalError", base.ptr()).attr("__doc__") =
      "A defect of Lockstep. The rank exits with code 70.";
  for (const char* name : {"Error", "UserError", "PeerError", "InternalError"})
    m.attr(name).attr("__module__") = "lockstep";
  m.def(
      "_leave",
      [](const std::string& kind, const std::string& message, bool told) {
        launcher::Failure failure{{.kind = kind, .message = message}, launcher::kExitProgram};
        if (kind == "UserError") failure.exit_code = kExitUser;
        if (kind == "PeerError") failure.exit_code = kExitPeer;
        if (kind == "InternalError") failure.exit_code = kExitInternal;
        launcher::leave_worker(std::move(failure), told);
      },
      nb::arg("kind"), nb::arg("message"), nb::arg("told"),
      "Ends this rank as an uncaught exception does: with an error record under trainrun and the exit "
      "code of its kind. `told`: the terminal already has the message.");
}

}  // namespace lockstep::python
