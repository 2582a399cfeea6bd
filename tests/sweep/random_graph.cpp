// Drawing a graph: inputs, functions, a loss, gradients.
#include "tests/sweep/random_graph.h"

#include <cmath>

#include "compiler/autodiff/autodiff.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/ir/print.h"
#include "tests/sweep/random_values.h"

namespace lockstep::sweep {

using compiler::HostTensor;

namespace {
// Digits of a dtype's significand, less two.
int digits(DType dtype) { return dtype == DType::bf16 ? 6 : dtype == DType::f16 ? 9 : 22; }
int magnitude(double most) { return most > 0 ? std::ilogb(most) + 1 : 0; }
constexpr double kModerate = 8;
}  // namespace

bool Known::exact() const { return fraction != kRounded; }

RandomValues::RandomValues(uint64_t seed)
    : philox_([seed](uint64_t index) { return philox::bits(seed, 0x6772617068, 0, index); }), seed_(seed) {}

int64_t RandomValues::below(int64_t n) {
  LS_CHECK(n > 0, "a number below ", n);
  return static_cast<int64_t>((uint64_t{bits()} * static_cast<uint64_t>(n)) >> 32);
}
bool RandomValues::chance(double p) { return static_cast<double>(bits()) * 0x1p-32 < p; }

std::optional<Known> RandomValues::any(const Wanted& wanted) {
  std::vector<size_t> fit, fresh;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!wanted(values[i])) continue;
    fit.push_back(i);
    if (!values[i].read) fresh.push_back(i);
  }
  if (fit.empty()) return std::nullopt;
  const std::vector<size_t>& from = !fresh.empty() && chance(0.6) ? fresh : fit;
  Known& chosen = values[from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))]];
  chosen.read = true;
  return chosen;
}
std::optional<Known> RandomValues::floats(int least_dims, int most_dims) {
  return any([&](const Known& x) {
    return x.is_float() && x.size() > 0 && x.ndim() >= least_dims && x.ndim() <= most_dims;
  });
}
std::optional<Known> RandomValues::exact_floats(int least_dims, int most_dims) {
  return any([&](const Known& x) {
    return x.is_float() && x.exact() && x.size() > 0 && x.ndim() >= least_dims && x.ndim() <= most_dims;
  });
}

namespace {
bool broadcasts(const Shape& a, const Shape& b) {
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const int64_t m = a[a.size() - i], n = b[b.size() - i];
    if (m != n && m != 1 && n != 1) return false;
  }
  return true;
}
}  // namespace

Known RandomValues::beside(const Known& first, bool exact) {
  auto other = any([&](const Known& x) {
    const bool alike =
        x.tensor.dtype() == first.tensor.dtype() || (builder->precision && x.is_float() && first.is_float());
    return alike && (x.exact() || !exact) && broadcasts(x.shape(), first.shape()) && x.size() <= first.size();
  });
  if (other && !(other->tensor.id() == first.tensor.id() && chance(0.8))) return *other;
  Shape shape = first.shape();
  for (int64_t& size : shape)
    if (chance(0.3)) size = 1;
  shape.erase(shape.begin(), shape.begin() + below(static_cast<int64_t>(shape.size()) + 1));
  return input(first.tensor.dtype(), shape);
}

Known RandomValues::input(DType dtype, Shape shape) {
  HostTensor made = compiler::make_tensor(dtype, shape);
  const size_t number = inputs.size();
  const double unit = dtype == DType::bf16 ? 0.125 : 0.0625;
  for (int64_t i = 0; i < made.size(); ++i) {
    const uint32_t word = philox::bits(seed_, 0x696e + number, 1, static_cast<uint64_t>(i));
    if (lockstep::is_float(dtype))
      made.set(i, (static_cast<double>(word % 63) - 31) * unit * (dtype == DType::bf16 ? 0.5 : 1));
    else if (dtype == DType::boolean)
      made.set_int_at(i, word % 2);
    else
      made.set_int_at(i, static_cast<int64_t>(word % 13) - 4);
  }
  inputs.push_back(made);
  Tensor tensor(builder,
                builder->graph.add_input(InputKind::value, str("in", number), dtype, std::move(shape)));
  if (lockstep::is_float(dtype)) differentiated.push_back(tensor);
  const bool whole = !lockstep::is_float(dtype);
  values.push_back({tensor, whole ? 8.0 : 2.0, whole ? 0 : 4, true});
  return values.back();
}

Known RandomValues::integers() {
  if (auto known = any([](const Known& x) { return x.is_int() && x.size() > 0; })) return *known;
  Shape shape;
  for (int64_t dims = below(3); dims > 0; --dims) shape.push_back(between(1, 5));
  return input(DType::i32, shape);
}
Tensor RandomValues::ids(const Known& from, int64_t n) {
  return remainder(from.tensor, full_like(from.tensor, static_cast<double>(n)));
}

Known RandomValues::within(const Known& x, double most) {
  if (x.most <= most) return x;
  const int places = std::ilogb(x.most / most) + 1;
  Known out = x;
  out.tensor = x.tensor * std::ldexp(1.0, -places);
  out.most = std::ldexp(x.most, -places);
  if (x.exact()) out.fraction = x.fraction + places;
  return out;
}

void RandomValues::add(Tensor made, double most, int fraction) {
  Known known{made, most, fraction, false};
  if (known.is_float()) {
    known = within(known, kModerate);
    const bool kept = known.exact() && magnitude(most) + fraction <= digits(made.dtype());
    if (!kept) known.fraction = kRounded;
  } else if (known.is_int() && most > 1000) {
    known.tensor = remainder(made, full_like(made, 17));
    known.most = 16;
  }
  values.push_back(known);
}

bool RandomValues::fits(const Shape& shape) const {
  return shape.size() <= 5 && numel(shape) <= (wide ? 120'000 : 600);
}

namespace {
Shape random_shape(RandomValues& values) {
  Shape shape;
  const int64_t dims = values.pick<int64_t>({0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4});
  for (int64_t d = 0; d < dims; ++d)
    shape.push_back(values.chance(0.12) ? 1 : values.chance(0.015) ? 0 : values.between(2, 7));
  while (numel(shape) > 400) shape.pop_back();
  if (values.wide) shape = {values.between(60, 90), values.between(2, 4), values.between(150, 190)};
  return shape;
}

// The graph from here on, with every vjp node replaced by what it means.
Graph differentiated(Graph graph) {
  return compiler::differentiate(std::move(graph), compiler::PassContext{Mesh{}, {}, {}});
}

const std::vector<Move>& all_moves() {
  static const std::vector<Move> all = [] {
    std::vector<Move> out;
    for (auto family : {pointwise_moves, view_moves, row_moves, product_moves})
      for (Move& move : family()) out.push_back(std::move(move));
    return out;
  }();
  return all;
}

bool draw_one(RandomValues& values) {
  const std::vector<Move>& moves = all_moves();
  int64_t total = 0;
  for (const Move& move : moves) total += move.weight;
  for (int attempt = 0; attempt < 20; ++attempt) {
    int64_t at = values.below(total);
    size_t chosen = 0;
    while (at >= moves[chosen].weight) at -= moves[chosen++].weight;
    const Move& move = moves[chosen];
    if (move.kinks && !values.may_kink) continue;
    values.builder->scope = move.name;
    if (!move.draw(values)) continue;
    if (move.kinks) values.smooth = false;
    return true;
  }
  return false;
}

// What nothing reads: sums of floats, weighed so that each element counts differently, are the loss; the rest
// are outputs.
Tensor loss_of(RandomValues& values) {
  Tensor total;
  const std::vector<Known> made = values.values;
  for (const Known& known : made) {
    if (known.read) continue;
    if (!known.is_float()) {
      values.builder->graph.add_output(OutputKind::value, str("value", known.tensor.id()), known.tensor.id());
      continue;
    }
    Tensor x = convert(known.tensor, DType::f32);
    if (values.chance(0.7) && known.ndim() > 0)
      x = x * values.input(DType::f32, {known.tensor.size(-1)}).tensor;
    x = sum(x);
    total = total.defined() ? total + x : x;
  }
  if (!total.defined()) total = sum(convert(values.values[0].tensor, DType::f32));
  // A gradient as a part of the loss, so that gradients are differentiated themselves.
  if (values.smooth && !values.wide && values.chance(0.3) && !values.differentiated.empty())
    total = total + sum(square(convert(grad(total, {values.differentiated[0]})[0], DType::f32)));
  return total;
}
}  // namespace

RandomGraph random_graph(uint64_t seed, int most) {
  RandomValues values(seed);
  values.wide = values.chance(0.04);
  values.may_kink = values.chance(0.6);
  if (values.chance(0.33)) values.builder->precision = values.pick({DType::bf16, DType::f16});
  const DType main = values.chance(0.7) ? DType::f32 : DType::bf16;
  const int64_t count = values.between(1, 4);
  for (int64_t i = 0; i < count; ++i) {
    const Shape shape = random_shape(values);
    values.input(i == 0 || values.chance(0.6)
                     ? main
                     : values.pick({DType::f32, DType::bf16, DType::i32, DType::boolean}),
                 shape);
    values.values.back().read = false;
  }
  RandomGraph out;
  out.seed = seed;
  const int64_t steps = std::min<int64_t>(values.wide ? values.between(3, 8) : values.between(4, 16), most);
  while (out.steps < steps && draw_one(values)) ++out.steps;
  values.builder->scope = "loss";
  const Tensor total = loss_of(values);
  Graph& graph = values.builder->graph;
  out.forward = graph;
  out.forward.outputs.clear();
  out.forward.add_output(OutputKind::value, "loss", total.id());
  out.forward = differentiated(std::move(out.forward));
  graph.add_output(OutputKind::value, "loss", total.id());
  const std::vector<Tensor> gradients = grad(total, values.differentiated);
  for (size_t i = 0; i < gradients.size(); ++i)
    graph.add_output(OutputKind::value, "gradient of " + str("%", values.differentiated[i].id()),
                     gradients[i].id());
  out.graph = differentiated(std::move(graph));
  out.inputs = std::move(values.inputs);
  for (const auto& input : out.graph.inputs) {
    if (input.kind != InputKind::scalar) continue;
    const Value& value = out.graph[input.value];
    HostTensor number = compiler::make_tensor(value.dtype, value.shape);
    number.set_int_at(0, 3);
    out.inputs.insert(out.inputs.begin() + (&input - out.graph.inputs.data()), number);
  }
  out.policy = values.builder->precision;
  out.smooth = values.smooth;
  out.wide = values.wide;
  return out;
}

std::string RandomGraph::text() const {
  return str("TEST_SEED=", seed, " TEST_GRAPHS=1, ", steps, " functions:\n", print(graph));
}

}  // namespace lockstep::sweep
