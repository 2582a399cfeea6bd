// Binds layers with a number of dims in their name, models of the registry, gradients of values and custom
// gradients.
#include <python_words.h>  // made by generate.py

#include "python/binding.h"

namespace lockstep::python {

namespace {
// Python keyword arguments as options of a model.
Json json_of(nb::handle value) {
  for (auto [name, one] : nb::cast<nb::dict>(value)) try {
      nb::module_::import_("json").attr("dumps")(one);
    } catch (nb::python_error&) {
      throw UserError(str("[build] ", python_line().text(), ": ", nb::cast<std::string>(name), " is ",
                          shown(one),
                          "; an option of a model is a number, a text, True or False, or a list of them"));
    }
  nb::object text = nb::module_::import_("json").attr("dumps")(value);
  return Json::parse(nb::cast<std::string>(text));
}

// The call, the weight and the bias of a layer.
template <class Layer>
void bind_parts(nb::class_<Layer>& layer) {
  layer
      .def(
          "__call__",
          [](const Layer& self, Tensor x) {
            CallingLine line;
            return self(x);
          },
          nb::arg("x"))
      .def_prop_ro(
          "weight", [](const Layer& self) { return self.weight; }, nb::keep_alive<0, 1>())
      .def_prop_ro("bias", [](const Layer& self) { return self.bias; }, nb::keep_alive<0, 1>());
}

template <size_t Dims>
void bind_convolution(nb::module_& m, const std::string& digit) {
  nb::class_<ConvolutionOf<Dims>> forward(
      m, ("Conv" + digit + "d").c_str(),
      "weight [out, in / groups, kernel...], bias [out]; [N, in, s...] -> [N, "
      "out, o...]. One number stands for all dims. "
      "padding_mode: what the padding holds, \"reflect\", \"replicate\", "
      "\"circular\"; None: zeros. As PyTorch's.");
  forward.def(
      "__init__",
      [](ConvolutionOf<Dims>* self, Scope at, int64_t in, int64_t out, Ints kernel, Ints stride, Ints padding,
         Ints dilation, int64_t groups, bool bias, std::optional<PadMode> mode, std::optional<Init> init) {
        CallingLine line;
        new (self)
            ConvolutionOf<Dims>(at, in, out, kernel.values,
                                {stride.values, padding.values, dilation.values, groups, mode}, bias, init);
      },
      nb::arg("at"), nb::arg("in_"), nb::arg("out"), nb::arg("kernel"), nb::arg("stride") = 1,
      nb::arg("padding") = 0, nb::arg("dilation") = 1, nb::arg("groups") = 1, nb::arg("bias") = true,
      nb::arg("padding_mode") = nb::none(), nb::arg("weight_init") = nb::none(), nb::keep_alive<1, 2>());
  bind_parts(forward);
  nb::class_<TransposedConvolutionOf<Dims>> transposed(
      m, ("ConvTranspose" + digit + "d").c_str(),
      "weight [in, out / groups, kernel...], bias [out]; [N, in, s...] -> [N, out, o...]: the transpose of a "
      "convolution. As PyTorch's.");
  transposed.def(
      "__init__",
      [](TransposedConvolutionOf<Dims>* self, Scope at, int64_t in, int64_t out, Ints kernel, Ints stride,
         Ints padding, Ints output_padding, Ints dilation, int64_t groups, bool bias,
         std::optional<Init> init) {
        CallingLine line;
        new (self) TransposedConvolutionOf<Dims>(
            at, in, out, kernel.values,
            {stride.values, padding.values, output_padding.values, dilation.values, groups}, bias, init);
      },
      nb::arg("at"), nb::arg("in_"), nb::arg("out"), nb::arg("kernel"), nb::arg("stride") = 1,
      nb::arg("padding") = 0, nb::arg("output_padding") = 0, nb::arg("dilation") = 1, nb::arg("groups") = 1,
      nb::arg("bias") = true, nb::arg("weight_init") = nb::none(), nb::keep_alive<1, 2>());
  bind_parts(transposed);
}

// Tensors that a call takes or returns, None for an absent one; `what` is used in messages.
std::vector<Tensor> list_of(nb::object given, const char* what) {
  if (nb::isinstance<Tensor>(given)) return {nb::cast<Tensor>(given)};
  auto refuse = [&](nb::handle value) {
    throw UserError(str("[", what, "] ", python_line().text(), ": ", shown(value),
                        " is given where a tensor, or a list of them, is needed"));
  };
  if (!nb::isinstance<nb::list>(given) && !nb::isinstance<nb::tuple>(given)) refuse(given);
  std::vector<Tensor> out;
  for (nb::handle value : nb::iter(given)) {
    if (!value.is_none() && !nb::isinstance<Tensor>(value)) refuse(value);
    out.push_back(value.is_none() ? Tensor() : nb::cast<Tensor>(value));
  }
  return out;
}

// forward(*inputs) -> outputs, or (outputs, saved); backward(saved, gradients) -> a gradient per input, or
// None.
std::vector<Tensor> with_gradient(nb::callable forward, nb::callable backward, nb::object inputs) {
  CallingLine line;
  return custom_gradient(
      [&](const std::vector<Tensor>& in) -> Computed {
        TracedStep traced(in);
        nb::list arguments;
        for (const Tensor& x : in) arguments.append(x);
        nb::object made = forward(*arguments);
        if (PyTuple_Check(made.ptr()) && nb::len(made) == 2 && !nb::isinstance<Tensor>(made[0]))
          return {list_of(made[0], "custom_gradient"), list_of(made[1], "custom_gradient")};
        return {list_of(made, "custom_gradient"), {}};
      },
      [&](const std::vector<Tensor>& saved, const std::vector<Tensor>& gradients) {
        TracedStep traced(gradients);
        return list_of(backward(saved, gradients), "custom_gradient");
      })(list_of(std::move(inputs), "custom_gradient"));
}

void bind_model(nb::module_& m) {
  nb::class_<models::Model>(m, "Model",
                            "A model of a family: its inputs, and a call that computes its output.")
      .def_prop_ro(
          "inputs",
          [](const models::Model& self) {
            nb::dict out;
            for (const auto& field : self.inputs)
              out[field.name.c_str()] = nb::make_tuple(field.dtype, nb::tuple(nb::cast(field.shape)));
            return out;
          },
          "name: (dtype, shape of a sample)")
      .def_prop_ro("parts",
                   [](const models::Model& self) {
                     std::vector<std::string> out;
                     for (const auto& [name, part] : self.parts) out.push_back(name);
                     return out;
                   })
      .def(
          "__call__",
          [](const models::Model& self, nb::args inputs) -> nb::object {
            CallingLine line;
            std::vector<Tensor> out = self.forward(list_of(inputs, "model"));
            return out.size() == 1 ? nb::cast(out[0]) : nb::cast(out);
          },
          "The output, or a list if there are several.")
      .def(
          "features",
          [](const models::Model& self, nb::args inputs) -> nb::object {
            CallingLine line;
            if (!self.features)
              throw UserError(str("[model] ", python_line().text(),
                                  ": this family gives no features; gpt, llama, qwen, gemma, mistral, bert, "
                                  "bert_classifier and vit do"));
            return nb::cast(self.features(list_of(inputs, "model"))[0]);
          },
          nb::arg("inputs"),
          "The last hidden state, which the head reads: [B,T,C] for tokens, or for a class token and "
          "patches. For a head of your own.")
      .def(
          "part",
          [](const models::Model& self, const std::string& name, nb::args inputs) -> nb::object {
            CallingLine line;
            auto found = self.parts.find(name);
            if (found == self.parts.end()) {
              std::vector<std::string> parts;
              for (const auto& [part, of] : self.parts) parts.push_back(part);
              throw UserError(str("[model] ", python_line().text(), ": there is no part \"", name,
                                  "\"; it has ", parts.empty() ? "none" : join(parts, ", ")));
            }
            std::vector<Tensor> out = found->second(list_of(inputs, "model"));
            return out.size() == 1 ? nb::cast(out[0]) : nb::cast(out);
          },
          nb::arg("name"), nb::arg("inputs"), "One network of a family with several: \"generator\".");
}
}  // namespace

void bind_convolutions(nb::module_& m) {
  for (const char* name : {"BatchNorm1d", "BatchNorm3d"})
    m.attr(name) = m.attr("BatchNorm2d");  // of any number of dims
  bind_convolution<1>(m, "1");
  bind_convolution<2>(m, "2");
  bind_convolution<3>(m, "3");
}

void bind_models(nb::module_& m) {
  m.def("custom_gradient", &with_gradient, nb::arg("forward"), nb::arg("backward"), nb::arg("inputs"),
        "Outputs of forward(*inputs) with a custom gradient, backward(saved, gradients): a list with one "
        "gradient per input, None for none. forward returns its outputs, or (outputs, saved), both "
        "lists. As torch.autograd.Function.");
  bind_model(m);
  m.def(
      "build",
      [](Scope at, const std::string& kind, nb::kwargs options) {
        CallingLine line;
        models::Model out = models::build(at, kind, json_of(options));
        at.state().place_by_default(out.placements);
        return out;
      },
      nb::arg("at"), nb::arg("kind"), nb::arg("options"), nb::keep_alive<0, 1>(),
      "Builds a model of a family; options are the keys of `model` in a config: build(state.root, "
      "\"gpt\", vocab=256, width=64).");
  m.def("families", &models::family_names, "The kinds that build() takes.");
}

}  // namespace lockstep::python
