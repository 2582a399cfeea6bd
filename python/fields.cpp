// Fields of a batch: passes them to the user's function, compares them between ranks, and warns of a skipped
// update.
#include <algorithm>
#include <cmath>

#include "compiler/compile/first_nonfinite.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/mesh/fingerprint.h"
#include "python/arrays.h"

namespace lockstep::python {

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
  nb::list values;
  for (const Tensor& x : batch) values.append(x);
  const nb::object in_order_and_by_name =
      of_package("fields", "arranged")(function, nb::cast(fields), values, called);
  return function(*nb::tuple(in_order_and_by_name[0]), **nb::dict(in_order_and_by_name[1]));
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
  const auto text = [](double value) { return std::isnan(value) ? std::string("nan") : number_text(value); };
  std::string told = str("the loss is ", text(result.metrics.at("loss")));
  for (const auto& [name, value] : result.metrics)  // of each optimizer, as "generator.grad_norm"
    if (name == "grad_norm" || name.ends_with(".grad_norm"))
      told += str(" and ", name == "grad_norm" ? "the gradient norm" : name, " is ", text(value));
  const auto first = compiler::first_nonfinite(step, input, state);
  if (state.mesh().rank == 0)
    logs::warn(
        str("[step] step ", input.step, ": ", told, "; ", first.words,
            "; its update was not made, and its metrics say \"applied\" False, as those of later ones, "
            "which are not reported here"));
  return true;
}

}  // namespace lockstep::python
