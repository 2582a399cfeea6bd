// Runs the laws one after the other.
#include "compiler/laws/check_op.h"

#include <functional>

#include "compiler/laws/backends.h"
#include "compiler/laws/laws.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
std::vector<laws::Case> cases_of(const Op& row, bool all_dtypes) {
  std::vector<laws::Case> out;
  for (size_t i = 0; i < row.samples.size(); ++i) {
    out.push_back(laws::make_case(row, i, row.samples[i]));
    for (DType dtype : {DType::f64, DType::bf16, DType::f16})
      if (all_dtypes)
        if (auto sample = laws::in_dtype(row, row.samples[i], dtype))
          out.push_back(laws::make_case(row, i, *sample));
  }
  return out;
}

class Checker {
 public:
  explicit Checker(const Op& row) : row_(row) {}

  void law(const std::string& name, bool all_dtypes,
           const std::function<laws::Verdict(const laws::Case&)>& holds) {
    int tried = 0;
    for (const laws::Case& made : cases_of(row_, all_dtypes)) {
      laws::Verdict verdict;
      try {
        verdict = holds(made);
      } catch (const Error& error) { verdict = error.what(); }
      tried += verdict.has_value();
      if (verdict && !verdict->empty()) out_.failures.push_back({name, made.title, *verdict});
    }
    if (tried > 0) out_.laws.push_back(str(name, ": ", tried));
  }
  // Also checks that two threads give the same bits as one.
  void backend(const std::string& name, Backend kind, const Target& target) {
    const std::vector<laws::Case> cases = cases_of(row_, true);
    if (!laws::not_taken(cases.at(0).graph).empty()) return;
    std::vector<Graph> graphs;
    for (const laws::Case& made : cases) graphs.push_back(made.graph);
    try {
      const auto one = laws::compiled_backend(name, kind, target, 1),
                 two = laws::compiled_backend(name, kind, target, 2);
      one.prepare(graphs), two.prepare(graphs);
      for (size_t c = 0; c < cases.size(); ++c) {
        const std::vector<HostTensor> given = one.run(c, cases[c].inputs),
                                      again = two.run(c, cases[c].inputs);
        if (std::string what = laws::equals_reference(cases[c], given); !what.empty())
          out_.failures.push_back({name, cases[c].title, what});
        for (size_t o = 0; o < given.size() && o < again.size(); ++o)
          if (!same_bytes(given[o], again[o]))
            out_.failures.push_back(
                {name, cases[c].title, str("output ", o, " has other bits on two threads than on one")});
      }
      out_.laws.push_back(str(name, ": ", cases.size()));
    } catch (const Error& error) {
      out_.failures.push_back({name, std::string(row_.id.name()), error.what()});
    }
  }
  OpCheck out() { return std::move(out_); }

 private:
  const Op& row_;
  OpCheck out_;
};
}  // namespace

std::string OpCheck::text() const {
  if (ok()) return "holds: " + join(laws, ", ");
  std::vector<std::string> lines;
  for (const Failure& failure : failures)
    lines.push_back(str(failure.law, ": ", failure.of, ": ", failure.what));
  return join(lines, "\n");
}

OpCheck check_op(const std::string& name, const Target* target) {
  const OpId op = intern(name);
  const Op* row = find_op(op);
  if (!row) throw UserError(str("[check_op] ", unknown_op(op)));
  if (!laws::swept(*row) || row->samples.empty())
    throw UserError(
        str("[check_op] \"", name, "\" has no samples that run alone: it has a meaning only inside a step"));
  Checker checker(*row);
  checker.law("types", true, laws::inference_equals_run);
  checker.law("expansion", true, laws::expansion_equals_reference);
  checker.law("gradient", false,
              [](const laws::Case& made) { return laws::gradient_equals_difference(made); });
  checker.law("second gradient", false, [](const laws::Case& made) -> laws::Verdict {
    try {
      return laws::second_gradient_equals_difference(made);
    } catch (const UserError& error) {  // an op of the gradient has none itself
      if (std::string_view(error.what()).find("this op has no gradient") != std::string_view::npos) return {};
      throw;
    }
  });
  checker.law("splits", false, [](const laws::Case& made) { return laws::splits_equal_whole(made); });
  const Target& on = target ? *target : cpu_target();
  checker.backend("native", Backend::native, on);
  checker.backend("eager", Backend::eager, on);
  return checker.out();
}

}  // namespace lockstep::compiler
