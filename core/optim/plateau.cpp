// Writes the plateau's buffers as assignments.
#include "core/optim/plateau.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/mesh/fingerprint.h"
#include "core/nn/assign.h"
#include "core/optim/optimizer.h"

namespace lockstep {

namespace {
constexpr double kWorst = 3.4e38;  // nearly the largest f32
}

Plateau::Plateau(Scope at, PlateauOptions options, Here line)
    : state_(&at.state()), path_(at.path()), options_(options) {
  const SourceLine here = line_of(line);
  auto check = [&](const char* name, double value, bool ok, const char* range) {
    check_option("plateau", here, name, value, ok, range);
  };
  check("every", static_cast<double>(options.every), options.every >= 1, "at least 1");
  check("factor", options.factor, options.factor > 0 && options.factor < 1, "above 0 and less than 1");
  check("patience", static_cast<double>(options.patience), options.patience >= 0, "at least 0");
  check("threshold", options.threshold, options.threshold >= 0, "at least 0");
  check("cooldown", static_cast<double>(options.cooldown), options.cooldown >= 0, "at least 0");
  check("least", options.least, options.least >= 0 && options.least <= 1, "between 0 and 1");
  at.buffer("factor", DType::f32, {1}, init::ones(), line);
  at.buffer("best", DType::f32, {1}, init::constant(options.maximize ? -kWorst : kWorst), line);
  for (const char* name : {"waited", "rest", "sum", "seen"})
    at.buffer(name, DType::f32, {1}, init::zeros(), line);
}

Parameter Plateau::of(const char* name) const { return state_->find_spec(path_ + "." + name); }

Tensor Plateau::factor(const Tensor& beside) const { return reshape(of("factor")(beside), {}); }

void Plateau::observe(const Loss& loss, Here at) const {
  observe(convert(mean_of_step(loss, at), DType::f32), at);
}

void Plateau::observe(const Tensor& number, Here at) const {
  if (!number.defined() || number.dtype() != DType::f32 || !number.shape().empty())
    throw UserError(str("[plateau] ", line_of(at).text(), ": is given ",
                        number.defined() ? number.text() : std::string("an empty Tensor"),
                        "; it looks at one number, f32[]"));
  auto now = [&](const char* name) { return of(name)(number); };
  auto value = [&](double v) { return full(number, {1}, v, DType::f32); };
  const Tensor sum = now("sum") + broadcast_to(number, {1}), seen = now("seen") + 1.0;
  const Tensor look = greater_equal(seen, value(static_cast<double>(options_.every)));
  const Tensor mean = sum / static_cast<double>(options_.every), best = now("best"), rest = now("rest");
  const double sign = options_.maximize ? 1 : -1;
  const Tensor bar =
      options_.absolute ? best + sign * options_.threshold : best * (1 + sign * options_.threshold);
  const Tensor better = options_.maximize ? greater(mean, bar) : less(mean, bar);
  const Tensor zero = value(0), rests = greater(rest, zero);
  const Tensor waited = where(rests, zero, where(better, zero, now("waited") + 1.0));
  const Tensor falls = greater(waited, value(static_cast<double>(options_.patience)));
  const Tensor lower = maximum(now("factor") * options_.factor, value(options_.least));
  auto put = [&](const char* name, const Tensor& looked) {
    assign(of(name), where(look, looked, now(name)), at);
  };
  put("factor", where(falls, lower, now("factor")));
  put("best", where(better, mean, best));
  put("waited", where(falls, zero, waited));
  put("rest", where(falls, value(static_cast<double>(options_.cooldown)), where(rests, rest - 1.0, zero)));
  assign(of("sum"), where(look, zero, sum), at);
  assign(of("seen"), where(look, zero, seen), at);
}

float* Plateau::here(const char* name) const {
  Array& array = state_->array(path_ + "." + name);
  if (array.local_numel() == 0) return nullptr;
  array.fetch();
  return array.data.as<float>();
}

std::optional<double> Plateau::factor() const {
  if (!state_->has_values())
    throw UserError(str("[plateau] ", path_, ".factor is asked for before the state has values"));
  const float* value = here("factor");
  return value ? std::optional<double>(*value) : std::nullopt;
}

// All buffers have one element, so the same ranks hold all of them, and each computes the same result from
// the same number.
void Plateau::observe(double number) const {
  if (!state_->has_values())
    throw UserError(str("[plateau] observe(", number_text(number),
                        ") comes before the state has values; it is ",
                        "for numbers between steps, and within a step observe takes a Loss or a Tensor"));
  compare(*state_->mesh().world, "where plateau.observe() is called between steps",
          {{"number that a plateau observes",
            {{path_, std::isnan(number) ? "nan" : number_text(number)}},
            "give every rank the same number, as a validation does, which is of all ranks' samples"}});
  float* sum = here("sum");
  if (!sum) return;
  float &factor = *here("factor"), &best = *here("best"), &waited = *here("waited"), &rest = *here("rest"),
        &seen = *here("seen");
  *sum += static_cast<float>(number);
  if (++seen >= static_cast<float>(options_.every)) {
    const double sign = options_.maximize ? 1 : -1;
    const float mean = *sum / static_cast<float>(options_.every);
    const float bar = options_.absolute ? best + static_cast<float>(sign * options_.threshold)
                                        : best * static_cast<float>(1 + sign * options_.threshold);
    const bool better = options_.maximize ? mean > bar : mean < bar, rests = rest > 0;
    if (better) best = mean;
    waited = rests || better ? 0 : waited + 1;
    rest = rests ? rest - 1 : 0;
    if (waited > static_cast<float>(options_.patience)) {
      factor = std::max(factor * static_cast<float>(options_.factor), static_cast<float>(options_.least));
      waited = 0;
      rest = static_cast<float>(options_.cooldown);
    }
    *sum = seen = 0;
  }
  for (const char* name : {"factor", "best", "waited", "rest", "sum", "seen"})
    state_->array(path_ + "." + name).host_wrote();
}

}  // namespace lockstep
