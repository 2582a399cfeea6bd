// Fields of a batch: how a function of the user's takes them, what ranks compare of them, and what is said of
// a batch whose update was not made.
#include <algorithm>
#include <cmath>

#include "compiler/first_nonfinite.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/mesh/fingerprint.h"
#include "python/arrays.h"

namespace lockstep::python {

namespace {
// What a function can be called with, as inspect.signature tells; nothing of one that has none.
struct Parameters {
  bool known = false, any_order = false;       // any_order: **names
  std::vector<std::string> in_order, by_name;  // by_name: all that can be
};
Parameters parameters_of(const nb::callable& function) {
  const nb::module_ inspect = nb::module_::import_("inspect");
  const nb::object kind = inspect.attr("Parameter");
  Parameters out;
  nb::object all;
  try {
    all = inspect.attr("signature")(function).attr("parameters").attr("values")();
  } catch (const nb::python_error&) { return out; }  // a function of C has no signature
  out.known = true;
  for (nb::handle one : all) {
    const auto is = [&](const char* of) { return one.attr("kind").equal(kind.attr(of)); };
    const auto name = nb::cast<std::string>(one.attr("name"));
    if (is("VAR_KEYWORD")) out.any_order = true;
    if (is("POSITIONAL_ONLY") || is("POSITIONAL_OR_KEYWORD")) out.in_order.push_back(name);
    if (is("KEYWORD_ONLY") || is("POSITIONAL_OR_KEYWORD")) out.by_name.push_back(name);
  }
  return out;
}
bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
}  // namespace

int64_t checked_done(int64_t done, const char* of) {
  if (done < 0)
    throw UserError(str("[done] ", python_line().text(), ": done is ", done, "; it counts ", of,
                        ", and is 0 before the first"));
  return done;
}

std::vector<std::string> names_of(const FieldTypes& fields) {
  std::vector<std::string> out;
  for (const auto& field : fields) out.push_back(field.name);
  return out;
}

nb::object call_with_fields(const nb::callable& function, const std::vector<std::string>& fields,
                            const std::vector<Tensor>& batch, const char* called) {
  const Parameters takes = parameters_of(function);
  const auto named = [&](const std::string& field) { return among(takes.by_name, field); };
  const bool all = std::all_of(fields.begin(), fields.end(), named);
  if (takes.known && (all || (takes.any_order && takes.in_order.empty()))) {
    nb::dict by_name;
    for (size_t f = 0; f < fields.size(); ++f) by_name[fields[f].c_str()] = batch[f];
    return function(**by_name);
  }
  for (size_t f = 0; f < fields.size(); ++f)
    if (named(fields[f]) && (f >= takes.in_order.size() || takes.in_order[f] != fields[f]))
      throw UserError(str("[fields] ", python_line().text(), ": the fields are ", join(fields, ", "),
                          ", and ", called, " takes ", join(takes.in_order, ", "), ": \"", fields[f],
                          "\" stands elsewhere, and not all have a parameter of their name; name each "
                          "parameter as its field, or none"));
  nb::list in_order;
  for (const Tensor& x : batch) in_order.append(x);
  return function(*in_order);
}

void compare_batch(Group& world, const FieldTypes& fields, const std::vector<HostArray>& arrays) {
  if (world.size() < 2) return;
  FingerprintPart part{
      "batch of the first call",
      {},
      "call the step with the same arrays on every rank, the whole global batch: the same files, "
      "and draws of one seed",
      true};
  for (size_t f = 0; f < arrays.size(); ++f)
    part.lines.push_back({str("field \"", fields[f].name, "\""),
                          str(shape_text(dtype_of(arrays[f].dtype()), shape_of(arrays[f])), ", fingerprint ",
                              fingerprint_of(arrays[f]))});
  compare(world, "at the first call of the step", {part});
}

bool tell_not_applied(compiler::Step& step, const compiler::StepInput& input,
                      const compiler::StepResult& result, const State& state) {
  const auto& outputs = step.plan().phases.whole.outputs;
  const bool writes = std::any_of(outputs.begin(), outputs.end(),
                                  [](const auto& output) { return output.kind == OutputKind::state; });
  if (!writes || state.compute_dtype() == DType::f16) return false;
  const auto text = [&](const char* name) {
    const auto found = result.metrics.find(name);
    if (found == result.metrics.end()) return std::string("not told");
    return std::isnan(found->second) ? std::string("nan") : number_text(found->second);
  };
  const auto first = compiler::first_nonfinite(step, input, state);
  if (state.mesh().rank == 0)
    logs::warn(
        str("[step] step ", input.step, ": the loss is ", text("loss"), " and the gradient norm is ",
            text("grad_norm"), "; ", first.words,
            "; its update was not made, and its metrics say \"applied\" False, as those of later ones, "
            "which are not told here"));
  return true;
}

}  // namespace lockstep::python
