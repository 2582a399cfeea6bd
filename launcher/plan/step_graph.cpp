// StepGraph: draws a step's timeline.
#include "launcher/plan/step_graph.h"

#include <cstring>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/shared_file.h"
#include "core/reading/json_text.h"
#include "launcher/plan/predict.h"
#include "launcher/plan/step_picture.h"
#include "launcher/plan/timeline.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
double exposed_of(const Timeline& timeline) {
  double sum = 0;
  for (const auto& stall : timeline.stalls) sum += stall.end - stall.begin;
  return sum;
}
}  // namespace

StepGraph draw_step(const DrawnStep& drawn, const StepProgram& program, const Roofline& roofline) {
  if (drawn.step.plan.options.backend == Backend::reference)
    throw UserError(
        "show --graph: the reference backend has no calls whose time could be foretold; leave "
        "compile.backend at "
        "\"native\"");
  const Roofline of_rank = roofline_of_rank(roofline, drawn.words, drawn.step);
  const Timeline timeline = timeline_of(program, {drawn.words, drawn.step.seats, of_rank, drawn.precision});
  const int64_t ranks = drawn.words.size();
  StepGraph out;
  out.said = str("a step of rank ", drawn.rank, ", predicted by the roofline ", of_rank.name, ": ",
                 seconds_text(timeline.end), ", of which ", seconds_text(exposed_of(timeline)),
                 " are exposed communication");
  const PictureWords words{
      str(drawn.name, " on ", ranks, ranks == 1 ? " rank" : " ranks", ", mesh ", text(drawn.words)),
      out.said};
  out.svg = step_picture(program, timeline, first_backward_call(drawn.step.plan, program.blocks[kBodyBlock]),
                         words);
  return out;
}

Json to_json(const StepGraph& graph) { return {{"svg", graph.svg}, {"said", graph.said}}; }
StepGraph step_graph(const std::string& json) {
  const Json from = bounded_json(json, {.bytes = int64_t{1} << 30});
  return {from.at("svg").get<std::string>(), from.at("said").get<std::string>()};
}

void write_graph(const std::string& path, const StepGraph& graph) {
  const std::string why =
      write_shared(path, [&](const Descriptor& file) { return write_fully(file.get(), graph.svg); });
  if (!why.empty())
    throw UserError(str("show --graph: \"", path, "\" cannot be written: ", why,
                        "; name a file in a folder that you may write to"));
}

}  // namespace lockstep::launcher
