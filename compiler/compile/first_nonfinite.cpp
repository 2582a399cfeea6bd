// The search: runs the body unfused; every value is an output that is checked as soon as it is ready.
#include "compiler/compile/first_nonfinite.h"

#include <algorithm>
#include <cmath>

#include "compiler/compile/open_body.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/mesh/nonfinite.h"

namespace lockstep::compiler {

namespace {
std::string place_text(const Shape& shape, int64_t at) {
  std::vector<int64_t> out(shape.size());
  for (size_t d = shape.size(); d-- > 0; at /= shape[d]) out[d] = at % shape[d];
  return shape.empty() ? "" : str(" at ", out);
}
std::string value_text(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

// What a rank found. Minus infinity is often intended, as in a mask: it is reported, and the search
// continues.
struct Seen {
  int64_t micro_batch = -1, output = -1;  // of the first NaN or inf; -1: none
  std::string text, minus, data;          // data: the place in a field of that micro-batch
  double largest = 0;                     // of the gradients
  std::string largest_of;
};

class Look {
 public:
  explicit Look(const OpenBody& body) : body_(body), device_(*body.device) {}
  void operator()(int64_t micro_batch, int output, const void* data) {
    const size_t at = output;
    const Value& value = body_.graph[body_.graph.outputs[at].value];
    const int64_t count = numel(value.shape);
    if (seen_.micro_batch >= 0) return;  // this rank's first one is already known
    if (!device_.addressable()) {
      copy_.resize(count * size_of(value.dtype));
      copy_to_host(device_, copy_.data(), data, copy_.size());
      data = copy_.data();
    }
    auto text = [&](int64_t i) {
      return str(body_.op_and_place(at), " gives ", value_text(get_double(value.dtype, data, i)),
                 place_text(value.shape, i), " of ", shape_text(value.dtype, value.shape),
                 body_.gradient_words(at));
    };
    for (int64_t i = first_nonfinite(value.dtype, data, count); i >= 0 && i < count; ++i) {
      const double element = get_double(value.dtype, data, i);
      if (std::isfinite(element)) continue;
      if (element < 0) {
        if (seen_.minus.empty()) seen_.minus = text(i);
        continue;
      }
      seen_.micro_batch = micro_batch, seen_.output = output, seen_.text = text(i);
      return;
    }
    if (auto gradient = body_.gradient.find(at); gradient != body_.gradient.end())
      for (int64_t i = 0; i < count; ++i)
        if (const double size = std::abs(get_double(value.dtype, data, i)); size > seen_.largest)
          seen_.largest = size, seen_.largest_of = gradient->second;
  }
  const Seen& seen() const { return seen_; }

 private:
  const OpenBody& body_;
  Device& device_;
  std::vector<std::byte> copy_;
  Seen seen_;
};

// The place of a non-finite float in the data of a micro-batch; "" if all are finite. Infinities count only
// if there is no NaN.
std::string place_in_data(const StepPlan& plan, const StepInput& input, int64_t micro_batch) {
  const int64_t samples = plan.fields[0].shape[0], first = micro_batch * samples;
  std::vector<std::vector<std::byte>> fields;
  std::vector<void*> places;
  for (const FieldType& field : plan.fields)
    places.push_back(
        fields.emplace_back(static_cast<size_t>(numel(field.shape)) * size_of(field.dtype)).data());
  input.fill(first, samples, places);
  std::string infinite;
  for (size_t f = 0; f < fields.size(); ++f) {
    const FieldType& field = plan.fields[f];
    if (!is_float(field.dtype)) continue;
    const Shape of(field.shape.begin() + 1, field.shape.end());
    for (int64_t i = 0, count = numel(field.shape); i < count; ++i) {
      const double value = get_double(field.dtype, places[f], i);
      if (std::isfinite(value) || (!std::isnan(value) && !infinite.empty())) continue;
      const int64_t sample = first + i / numel(of);
      const std::string name = input.name ? input.name(sample) : "";
      const std::string words =
          str("field \"", field.name, "\" is ", value_text(value), place_text(of, i % numel(of)),
              " of sample ", sample, " of the batch", name.empty() ? "" : str(" (", name, ")"));
      if (std::isnan(value)) return words;
      infinite = words;
    }
  }
  return infinite;
}

// Combines the findings of all ranks into one sentence.
FirstNonFinite settled(const Seen& mine, Group& world) {
  const Json own = {mine.micro_batch,          mine.output,     mine.text, mine.minus,
                    number_text(mine.largest), mine.largest_of, mine.data};
  std::vector<Json> all;
  for (const auto& text : all_gather_text(world, own.dump(-1, ' ', false, Json::error_handler_t::replace)))
    all.push_back(Json::parse(text));
  int best = -1;
  for (int r = 0; r < static_cast<int>(all.size()); ++r) {
    if (all[r][0] < 0) continue;
    auto place = [&](int of) { return std::pair(all[of][0].get<int64_t>(), all[of][1].get<int64_t>()); };
    if (best < 0 || place(r) < place(best)) best = r;
  }
  if (best >= 0) {
    const Json& first = all[best];
    const std::string minus = first[3], data = first[6];
    const std::string place =
        str("in micro-batch ", first[0].get<int64_t>(), " (rank ", best, "), ", first[2].get<std::string>());
    if (!data.empty()) return {str("the data is not finite: ", data, "; then, ", place), true};
    return {
        str("the first value that is not finite: ", place, minus.empty() ? "" : str("; before it, ", minus))};
  }
  double largest = 0;
  std::string of, minus;
  for (const Json& one : all) {
    const double size = std::strtod(one[4].get<std::string>().c_str(), nullptr);
    if (size > largest || (size == largest && one[5].get<std::string>() < of)) largest = size, of = one[5];
    if (minus.empty()) minus = one[3];
  }
  if (!minus.empty())
    return {str("the first value that is not finite: ", minus,
                " (computed again, its micro-batches have no NaN and no +infinity; masks and paddings are "
                "-infinity on purpose)")};
  if (of.empty())
    return {
        "every value of its micro-batches is finite, and every gradient of one is 0; what is summed over "
        "them is not finite"};
  return {
      str("every value of its micro-batches is finite, and the sum of the gradients, or of their squares, is "
          "not; the largest gradient of one "
          "micro-batch is ",
          number_text(static_cast<float>(largest)), ", of ", of)};
}
}  // namespace

FirstNonFinite first_nonfinite(Step& step, const StepInput& input, const State& state) {
  const LiveMesh& mesh = state.mesh();
  if (auto bad = find_nonfinite(state.arrays(), mesh))
    return {str("the state was not finite before the step: ", bad->text())};
  const StepPlan& plan = step.plan();
  const std::vector<double>& counts = step.counted();
  if (const auto none = std::find(counts.begin(), counts.end(), 0.0); none != counts.end()) {
    const auto term = static_cast<size_t>(none - counts.begin());
    const std::string which = counts.size() == 1
                                  ? "the loss"
                                  : str("term ", term + 1, " of the loss (", plan.terms.at(term).text(), ")");
    return {
        str("no label of the step counts: ", which,
            " is divided by a count of 0, as where every label is ignored (-100), or masked; a term that may "
            "count nothing is a mean over all places, times their number over maximum(count, 1)"),
        true};
  }
  try {
    const OpenBody body = open_body(step, state, Opened::floats);
    Look look(body);
    inspect(step, input, body,
            [&](int64_t micro_batch, int output, const void* data) { look(micro_batch, output, data); });
    Seen seen = look.seen();
    if (seen.micro_batch >= 0) seen.data = place_in_data(plan, input, seen.micro_batch);
    FirstNonFinite first = settled(seen, *mesh.world);
    if (std::any_of(counts.begin(), counts.end(), [](double count) { return std::isnan(count); }))
      first.words +=
          "; the count that the loss is divided by is none: the weights of a loss are finite and below "
          "2^120, and their sum is 0 or from 2^-126 to 2^126: scale them";
    return first;
  } catch (const UserError& error) {  // agreed upon: memory is out, or a kernel does not compile
    return {str("the first value that is not finite could not be looked for: ", error.what())};
  }
}

}  // namespace lockstep::compiler
