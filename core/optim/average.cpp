// Writes the weight average as assignments.
#include "core/optim/average.h"

#include "core/base/error.h"
#include "core/nn/assign.h"
#include "core/nn/update_cohorts.h"
#include "core/optim/optimizer.h"

namespace lockstep {

WeightAverage::WeightAverage(Scope at, double decay, std::vector<Parameter> parameters, Here line)
    : state_(&at.state()),
      path_(at.path()),
      parameters_(parameters.empty() ? state_->parameters() : std::move(parameters)) {
  const SourceLine here = line_of(line);
  check_option("average", here, "decay", decay, decay >= 0 && decay < 1, "at least 0 and less than 1");
  if (parameters_.empty())
    throw UserError(str("[average] ", here.text(),
                        ": the state has no parameters; construct the average after the model"));
  state_->add_optimizer(path_, here, [path = path_, decay](int64_t, int64_t update) {
    return State::Scalars{{path + ".decay", update == 1 ? 0.0 : decay}};
  });
  for (const Parameter& parameter : parameters_) at.moment(parameter, "average", line);
}

Parameter WeightAverage::of(const Parameter& parameter) const {
  return state_->find_spec(str(path_, ".", parameter.fqn(), ".average"));
}

void WeightAverage::update(const Tensor& beside, Here at) {
  UpdateCohorts cohorts;
  for (const Parameter& parameter : parameters_) cohorts.add(of(parameter), *state_);
  for (const Parameter& parameter : parameters_) {
    const Parameter average = of(parameter);
    const Tensor decay = scalar(beside, path_ + ".decay" + cohorts.suffix(average));
    assign(average, decay * average(beside) + (1.0 - decay) * assigned(parameter, beside), at);
  }
}

}  // namespace lockstep
