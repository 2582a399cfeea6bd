// Binds Loss, sums of losses and their weights.
#include "python/binding.h"

namespace lockstep::python {

namespace {
std::string text_of(const Loss& x) {
  if (!x.terms.empty()) return str("a sum of ", x.terms.size(), " losses");
  return str("sum ", x.sum.text(), ", count ", x.count.text());
}
// For a single loss; a sum of losses has no common sum and count.
const Tensor& part_of(const Loss& x, const Tensor& part, const char* name) {
  if (x.terms.empty()) return part;
  throw UserError(str("[loss] ", python_line().text(), ": a sum of ", x.terms.size(), " losses has no ", name,
                      " of its own, since each is divided by its own count; loss.terms are the losses"));
}
[[noreturn]] void no_product(const char* what) {
  throw UserError(str("[loss] ", python_line().text(), ": ", what,
                      " of losses is no loss: their means are known after the last micro-batch. Losses are "
                      "added, and weighed by numbers: a + 0.5 * b; compute with values before they are "
                      "summed, as in mean_loss(values)"));
}

bool no_truth(const Loss& loss) {
  throw nb::type_error(str("a loss, ",
                           loss.terms.empty() ? loss.sum.text() : str("a sum of ", loss.terms.size()),
                           ", has no value while a step is traced; a called step returns it as "
                           "step(x)[\"loss\"], and train() ends a run whose loss is not finite")
                           .c_str());
}

using LossClass = nb::class_<Loss>;

// loss OP x of a number and of a tensor.
template <class Operator>
void bind_operator(LossClass& loss, const char* name, Operator of) {
  loss.def(
      name,
      [of](const Loss& a, double b) {
        CallingLine line;
        return of(a, b);
      },
      nb::is_operator());
  loss.def(
      name,
      [of](const Loss& a, const Tensor& b) {
        CallingLine line;
        return of(a, b);
      },
      nb::is_operator());
}
template <class Operator>
void bind_pair(LossClass& loss, const char* name, Operator of) {
  loss.def(
      name,
      [of](const Loss& a, const Loss& b) {
        CallingLine line;
        return of(a, b);
      },
      nb::is_operator());
}

void bind_arithmetic(LossClass& loss) {
  bind_pair(loss, "__add__", [](const Loss& a, const Loss& b) { return a + b; });
  bind_pair(loss, "__sub__", [](const Loss& a, const Loss& b) { return a - b; });
  bind_pair(loss, "__mul__", [](const Loss&, const Loss&) -> Loss { no_product("a product"); });
  bind_pair(loss, "__truediv__", [](const Loss&, const Loss&) -> Loss { no_product("a quotient"); });
  bind_operator(loss, "__add__", [](const Loss& a, const auto& b) { return a + b; });
  bind_operator(loss, "__radd__", [](const Loss& a, const auto& b) { return b + a; });
  bind_operator(loss, "__sub__", [](const Loss& a, const auto& b) { return a - b; });
  bind_operator(loss, "__rsub__", [](const Loss& a, const auto& b) { return b - a; });
  bind_operator(loss, "__mul__", [](const Loss& a, const auto& b) { return a * b; });
  bind_operator(loss, "__rmul__", [](const Loss& a, const auto& b) { return b * a; });
  bind_operator(loss, "__truediv__", [](const Loss& a, const auto& b) { return a / b; });
  bind_operator(loss, "__rtruediv__", [](const Loss&, const auto&) -> Loss { no_product("a quotient"); });
  bind_operator(loss, "__pow__", [](const Loss&, const auto&) -> Loss { no_product("a power"); });
  loss.def("__neg__", [](const Loss& a) {
    CallingLine line;
    return -LossAt(a);
  });
  loss.def("__pos__", [](const Loss& a) { return a; });
}
}  // namespace

void bind_loss(nb::module_& m) {
  LossClass loss(
      m, "Loss",
      "A sum and a count: divided once, after both are summed over all micro-batches and ranks. Losses "
      "can be added and weighted, a + 0.5 * b, sum([a, b, c]): each is divided by its own count.");
  loss.def(
          "__init__", [](Loss* self, Tensor sum, Tensor count) { new (self) Loss{sum, count}; },
          nb::arg("sum"), nb::arg("count"))
      .def_prop_ro("sum", [](const Loss& x) { return part_of(x, x.sum, "sum"); })
      .def_prop_ro("count", [](const Loss& x) { return part_of(x, x.count, "count"); })
      .def_prop_ro(
          "terms",
          [](const Loss& x) {
            CallingLine line;
            return terms_of("loss", x);
          },
          "The terms of a sum of losses, or the loss itself.")
      .def("__repr__", [](const Loss& x) { return "Loss(" + text_of(x) + ")"; })
      .def("__bool__", &no_truth)
      .def("__gt__", [](const Loss& x, nb::handle) { return no_truth(x); })
      .def("__lt__", [](const Loss& x, nb::handle) { return no_truth(x); })
      .def("__float__", [](const Loss& x) { return static_cast<double>(no_truth(x)); });
  bind_arithmetic(loss);
}

}  // namespace lockstep::python
