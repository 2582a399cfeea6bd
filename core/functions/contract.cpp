// Contractions: permutes dims into the order of `dot` and back.
#include "core/functions/contract.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "core/base/text.h"
#include "core/functions/creation.h"
#include "core/functions/operators.h"
#include "core/functions/reduce.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
using Dims = std::vector<int64_t>;
Tensor dot(Tensor a, Tensor b, Dims a_batch, Dims b_batch, Dims a_contract, Dims b_contract, Here at) {
  return apply1(ops::dot, {a, b},
                {{"lhs_batch", std::move(a_batch)},
                 {"rhs_batch", std::move(b_batch)},
                 {"lhs_contract", std::move(a_contract)},
                 {"rhs_contract", std::move(b_contract)}},
                at);
}
Tensor with_leading(Tensor x, const Shape& leading, Here at) {
  Shape shape = leading;
  shape.push_back(x.size(-2));
  shape.push_back(x.size(-1));
  return broadcast_to(x, shape, at);
}
Tensor product(Tensor a, Tensor b, Here at) {
  auto types = [&] { return str("lhs ", a.text(), ", rhs ", b.text()); };
  if (a.size(-1) != b.size(-2))
    refuse("matmul", {a}, at,
           str("inner dims differ: lhs ", a.text(), " has ", a.size(-1), ", rhs ", b.text(), " has ",
               b.size(-2), "; transpose one side?"));
  Shape lhs = a.shape(), rhs = b.shape(), leading;
  lhs.resize(lhs.size() - 2);
  rhs.resize(rhs.size() - 2);
  if (!broadcast_shape(lhs, rhs, leading))
    refuse("matmul", {a}, at,
           str("leading dims differ: ", types(), "; they are matched from the last, and must be equal or 1"));
  if (numel(rhs) == 1 && leading == lhs) {  // one matrix for all rows
    const int64_t last = a.ndim() - 1;
    return dot(a, reshape(b, {b.size(-2), b.size(-1)}, at), {}, {}, {last}, {0}, at);
  }
  a = with_leading(a, leading, at);
  b = with_leading(b, leading, at);
  const auto rank = static_cast<int64_t>(leading.size());
  return dot(a, b, counted(0, rank), counted(0, rank), {rank + 1}, {rank}, at);
}
}  // namespace

Tensor matmul(Tensor a, Tensor b, Here at) {
  need("matmul", {a, b}, at);
  if (a.ndim() < 1 || b.ndim() < 1)
    refuse("matmul", {a}, at, str("lhs ", a.text(), ", rhs ", b.text(), ": both need 1 or more dims"));
  const auto taken = under_policy("matmul", {a, b}, source_line(*a.builder(), at));
  a = taken[0], b = taken[1];
  if (a.dtype() != b.dtype())
    refuse("matmul", {a}, at,
           str("dtypes differ: lhs ", a.text(), ", rhs ", b.text(), "; convert one side?"));
  InFunction line(a, at);
  const bool row = a.ndim() == 1, column = b.ndim() == 1;
  Tensor y = product(row ? unsqueeze(a, 0) : a, column ? unsqueeze(b, 1) : b, at);
  if (column) y = squeeze(y, -1);
  return row ? squeeze(y, column ? -1 : -2) : y;
}
Tensor bmm(Tensor a, Tensor b, Here at) {
  need("bmm", {a, b}, at);
  if (a.ndim() != 3 || b.ndim() != 3 || a.size(0) != b.size(0))
    refuse("bmm", {a}, at,
           str("lhs ", a.text(), ", rhs ", b.text(), ": need [batch, m, k] and [batch, k, n]"));
  return matmul(a, b, at);
}
Tensor outer(Tensor a, Tensor b, Here at) {
  need("outer", {a, b}, at);
  if (a.ndim() != 1 || b.ndim() != 1)
    refuse("outer", {a}, at, str("lhs ", a.text(), ", rhs ", b.text(), ": both need 1 dim"));
  InFunction line(a, at);
  return unsqueeze(a, 1) * unsqueeze(b, 0);
}
Tensor tensordot(Tensor a, Tensor b, Dims a_dims, Dims b_dims, Here at) {
  need("tensordot", {a, b}, at);
  for (int64_t& dim : a_dims) dim = dim_of("tensordot", a, dim, at);
  for (int64_t& dim : b_dims) dim = dim_of("tensordot", b, dim, at);
  return dot(a, b, {}, {}, a_dims, b_dims, at);
}
Tensor linear(Tensor x, Tensor weight, Tensor bias, Here at) {
  return apply1(ops::linear,
                bias.defined() ? std::vector<Tensor>{x, weight, bias} : std::vector<Tensor>{x, weight}, {},
                at);
}

// einsum: letters to dims, then operands combined from the left by contractions and products.
namespace {
// Labels are letters; the dims of "..." are '0', '1', ... from the last.
struct Operand {
  Tensor tensor;
  std::string labels;
  size_t at(char label) const { return labels.find(label); }
  bool has(char label) const { return at(label) != std::string::npos; }
};
using Refuse = std::function<void(const std::string&)>;

// "a...b" for a tensor of `rank` dims; -1: as many dims of "..." as `most`.
std::string spelled(const std::string& term, int64_t rank, size_t& most, const Refuse& fail) {
  const size_t dots = term.find("...");
  std::string letters = term;
  if (dots != std::string::npos) letters.erase(dots, 3);
  for (char c : letters)
    if (!std::isalpha(static_cast<unsigned char>(c)))
      fail(str("\"", term, "\": '", c, "' is neither a letter nor part of one \"...\""));
  if (dots == std::string::npos) return letters;
  const int64_t hidden = rank < 0 ? static_cast<int64_t>(most) : rank - static_cast<int64_t>(letters.size());
  if (hidden < 0 || hidden > 10) return letters;  // the caller refuses the number of dims
  if (rank >= 0) most = std::max(most, static_cast<size_t>(hidden));
  std::string places;
  for (int64_t i = hidden; i-- > 0;) places += static_cast<char>('0' + i);
  return letters.insert(dots, places);
}

// A label that occurs twice: takes the diagonal, by masking unequal indices and summing over the second dim.
void take_diagonals(Operand& x) {
  for (size_t i = 0; i < x.labels.size(); ++i)
    for (size_t j = x.labels.find(x.labels[i], i + 1); j != std::string::npos;
         j = x.labels.find(x.labels[i], i + 1)) {
      Tensor same = iota_like(x.tensor, static_cast<int>(i)) == iota_like(x.tensor, static_cast<int>(j));
      x.tensor = sum(where(same, x.tensor, full_like(x.tensor, 0)), {static_cast<int64_t>(j)});
      x.labels.erase(j, 1);
    }
}
// Sums over the labels that nothing else reads.
void sum_over(Operand& x, const std::function<bool(char)>& wanted) {
  std::vector<int64_t> dims;
  std::string left;
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (wanted(x.labels[i]))
      left += x.labels[i];
    else
      dims.push_back(static_cast<int64_t>(i));
  x.tensor = sum(x.tensor, dims);
  x.labels = left;
}
// Broadcasts both operands to the union of their labels and multiplies.
Operand product(const Operand& a, const Operand& b) {
  std::string labels = a.labels;
  for (char c : b.labels)
    if (!a.has(c)) labels += c;
  auto over = [&](const Operand& x) {
    Shape shape;
    std::vector<int64_t> places;
    for (char c : labels) shape.push_back(a.has(c) ? a.tensor.shape()[a.at(c)] : b.tensor.shape()[b.at(c)]);
    for (char c : x.labels) places.push_back(static_cast<int64_t>(labels.find(c)));
    return apply1(ops::broadcast, {x.tensor}, {{"shape", shape}, {"dims", places}});
  };
  return {over(a) * over(b), labels};
}
// Labels that both operands have are batch dims if they are still wanted, else they are contracted. A pair
// without a contraction is a product.
Operand combined(const Operand& a, const Operand& b, const std::function<bool(char)>& wanted) {
  std::vector<int64_t> a_batch, b_batch, a_sum, b_sum;
  std::string batch, labels;
  for (char c : a.labels) {
    if (!b.has(c)) continue;
    (wanted(c) ? a_batch : a_sum).push_back(static_cast<int64_t>(a.at(c)));
    (wanted(c) ? b_batch : b_sum).push_back(static_cast<int64_t>(b.at(c)));
    if (wanted(c)) batch += c;
  }
  if (a_sum.empty()) return product(a, b);
  labels = batch;
  for (const Operand* x : {&a, &b})
    for (char c : x->labels)
      if (!(a.has(c) && b.has(c))) labels += c;
  return {
      apply1(
          ops::dot, {a.tensor, b.tensor},
          {{"lhs_batch", a_batch}, {"rhs_batch", b_batch}, {"lhs_contract", a_sum}, {"rhs_contract", b_sum}}),
      labels};
}

// The operands of an equation, and its labels' sizes and numbers of places.
struct EinsumTerms {
  std::vector<Operand> operands = {};
  std::map<char, int64_t> sizes = {}, times = {};
  size_t hidden = 0;  // dims of "..."
};
EinsumTerms read_terms(const std::vector<std::string>& terms, const std::vector<Tensor>& tensors,
                       const Refuse& fail) {
  EinsumTerms out;
  for (size_t i = 0; i < terms.size(); ++i) {
    Operand x{tensors[i], spelled(terms[i], tensors[i].ndim(), out.hidden, fail)};
    if (static_cast<int>(x.labels.size()) != x.tensor.ndim())
      fail(str("\"", terms[i], "\" names ", x.labels.size(), " dims, operand ", i, " is ", x.tensor.text()));
    for (size_t d = 0; d < x.labels.size(); ++d) {
      int64_t size = x.tensor.shape()[d], &known = out.sizes.emplace(x.labels[d], size).first->second;
      if (known != size && known != 1 && size != 1)
        fail(str('\'', x.labels[d], "' is ", known, " and ", size, " (operand ", i, ", ", x.tensor.text(),
                 ")"));
      known = std::max(known, size);
      if (size == 0) known = 0;
      ++out.times[x.labels[d]];
    }
    out.operands.push_back(std::move(x));
  }
  return out;
}
// Those behind the arrow; without one, those of "..." and the letters with one place.
std::string result_labels(const std::string& text, size_t arrow, EinsumTerms& read, const Refuse& fail) {
  std::string result;
  if (arrow != std::string::npos) {
    result = spelled(text.substr(arrow + 2), -1, read.hidden, fail);
  } else {
    for (size_t i = read.hidden; i-- > 0;) result += static_cast<char>('0' + i);
    for (auto [label, count] : read.times)
      if (count == 1 && std::isalpha(static_cast<unsigned char>(label))) result += label;
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (!read.sizes.count(result[i])) fail(str('\'', result[i], "' of the result is in no operand"));
    if (result.find(result[i], i + 1) != std::string::npos)
      fail(str('\'', result[i], "' occurs twice in the result"));
  }
  return result;
}
// All operands from the left, summed over the labels that are in no later one and not in the result.
Operand combined(const std::vector<Operand>& operands, const std::string& result) {
  auto wanted_behind = [&](size_t i) {
    return [&, i](char label) {
      return result.find(label) != std::string::npos ||
             std::any_of(operands.begin() + static_cast<std::ptrdiff_t>(i) + 1, operands.end(),
                         [&](const Operand& x) { return x.has(label); });
    };
  };
  Operand made = operands[0];
  for (size_t i = 0;; ++i) {
    sum_over(made, wanted_behind(i));
    if (i + 1 == operands.size()) return made;
    Operand next = operands[i + 1];
    const auto beyond = wanted_behind(i + 1);
    sum_over(next, [&](char label) { return beyond(label) || made.has(label); });
    made = combined(made, next, beyond);
  }
}
}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& given, Here at) {
  if (given.empty()) refuse("einsum", given, at, "takes 1 or more operands, got 0");
  need("einsum", given, at);
  const auto tensors = under_policy("einsum", given, source_line(*given[0].builder(), at));
  std::string text(equation);
  std::erase(text, ' ');
  Refuse fail = [&](const std::string& what) {
    refuse("einsum", tensors, at, str('"', equation, "\": ", what));
  };
  const size_t arrow = text.find("->");
  const std::vector<std::string> terms = split(text.substr(0, arrow), ',');
  if (terms.size() != tensors.size()) fail(str(terms.size(), " terms for ", tensors.size(), " operands"));
  EinsumTerms read = read_terms(terms, tensors, fail);
  const std::string result = result_labels(text, arrow, read, fail);

  InFunction line(tensors[0], at);
  for (Operand& x : read.operands) {
    take_diagonals(x);
    Shape shape;
    std::string labels;  // without dims of size 1 that another operand has larger
    for (size_t d = 0; d < x.labels.size(); ++d)
      if (x.tensor.shape()[d] == read.sizes[x.labels[d]])
        shape.push_back(x.tensor.shape()[d]), labels += x.labels[d];
    x = {reshape(x.tensor, shape), labels};
  }
  const Operand made = combined(read.operands, result);
  std::vector<int64_t> order;
  for (char c : result) order.push_back(static_cast<int64_t>(made.at(c)));
  return permute(made.tensor, order);
}

}  // namespace lockstep
