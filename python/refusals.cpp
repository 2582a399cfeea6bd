// What is wrong with a constructor's arguments, in words.
#include "python/refusals.h"

#include <algorithm>
#include <map>

#include "core/base/text.h"

namespace lockstep::python {

namespace {
std::string shown(nb::handle value) {
  return shortened(printable(nb::cast<std::string>(nb::repr(value))), 80);
}

// "at, in, out, and by keyword bias, init"
std::string list_of(const Signature& signature) {
  std::vector<std::string> in_order, by_keyword;
  for (const auto& one : signature) (one.by_keyword ? by_keyword : in_order).emplace_back(one.name);
  return str(join(in_order, ", "), in_order.empty() || by_keyword.empty() ? "" : ", and by keyword ",
             join(by_keyword, ", "));
}

const TakenArgument* find(const Signature& signature, const std::string& name) {
  for (const auto& one : signature)
    if (name == one.name) return &one;
  return nullptr;
}
size_t in_order_of(const Signature& signature) {
  return static_cast<size_t>(
      std::count_if(signature.begin(), signature.end(), [](const auto& one) { return !one.by_keyword; }));
}

// The one that knows all the names and has room for what stands in order, else the first.
const Signature& meant(const std::vector<Signature>& signatures, size_t in_order, const nb::dict& by_name) {
  for (const Signature& one : signatures) {
    bool all = in_order <= in_order_of(one);
    for (auto [name, value] : by_name) all = all && find(one, nb::cast<std::string>(name));
    if (all) return one;
  }
  return signatures.front();
}

// A keyword of PyTorch's that is ours under another name, or one that is spelled nearly so.
std::string near(const std::string& word, const Signature& signature) {
  static const std::map<std::string, const char*> neighbours{
      {"learning_rate", "lr"},     {"params", "parameters"},  {"max_norm", "clip"},
      {"in_features", "in"},       {"out_features", "out"},   {"num_heads", "heads"},
      {"embed_dim", "width"},      {"hidden_size", "hidden"}, {"normalized_shape", "width"},
      {"num_features", "channels"}};
  if (auto found = neighbours.find(word); found != neighbours.end())
    for (const std::string& ours : {std::string(found->second), found->second + std::string("_")})
      if (find(signature, ours)) return ours;
  std::vector<std::string> names;
  for (const auto& one : signature) names.emplace_back(one.name);
  return nearest(word, names);
}
}  // namespace

void refuse_arguments(const std::string& name, const std::vector<Signature>& signatures, nb::args in_order,
                      nb::kwargs by_name) {
  const Signature& signature = meant(signatures, nb::len(in_order), by_name);
  const std::string where = str("[", name, "] ", python_line().text(), ": ");
  for (auto [word, value] : by_name) {
    const std::string given = nb::cast<std::string>(word);
    if (find(signature, given)) continue;
    const std::string better = near(given, signature);
    throw UserError(str(where, "there is no argument ", given, ", which is ", shown(value),
                        better.empty() ? "" : str("; did you mean ", better, "?"), "; it takes ",
                        list_of(signature)));
  }
  const size_t most = in_order_of(signature);
  if (nb::len(in_order) > most)
    throw UserError(str(where, "argument ", most + 1, " in order is ", shown(in_order[most]),
                        ", and it takes ", most, most == 1 ? " so" : " in order", "; it takes ",
                        list_of(signature)));
  for (size_t i = 0; i < signature.size(); ++i) {
    const TakenArgument& one = signature[i];
    nb::object value;
    if (i < nb::len(in_order)) value = in_order[i];
    if (by_name.contains(one.name)) {
      if (value.is_valid())
        throw UserError(str(where, one.name, " is given twice: in order, ", shown(value),
                            ", and by its name, ", shown(by_name[one.name])));
      value = by_name[one.name];
    }
    if (!value.is_valid()) {
      if (one.needed) throw UserError(str(where, one.name, " is missing; it takes ", list_of(signature)));
      continue;
    }
    bool fits = false;
    try {
      fits = one.fits(value);
    } catch (const UserError& error) { throw UserError(where + error.what()); }
    if (!fits) throw UserError(str(where, one.name, " is ", shown(value), "; it must be ", one.what));
  }
  throw UserError(str(where, "the arguments fit no way of making one; it takes ", list_of(signature)));
}

}  // namespace lockstep::python
