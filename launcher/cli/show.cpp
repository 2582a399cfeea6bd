// trainrun show: the resolved config, the reference of its keys, or a step as a picture.
#include <cstring>
#include <ostream>

#include "core/base/error.h"
#include "core/base/plain_file.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/planned_run.h"
#include "launcher/plan/predict.h"
#include "launcher/plan/step_picture.h"

namespace lockstep::launcher::cli {

using namespace compiler;

int show(const RunConfig& config, std::ostream& out) {
  out << config_text(config);
  return kExitOk;
}

int show_reference(std::ostream& out) {
  out << config_reference();
  return kExitOk;
}

int show_schema(std::ostream& out) {
  out << config_schema();
  return kExitOk;
}

namespace {
void write_picture(const std::string& path, const std::string& text) {
  PlainFile file = create_plain(path);
  std::string why = file.why;
  if (file.fd)
    if (const int code = write_fully(file.fd.get(), text)) why = std::strerror(code);
  if (!why.empty())
    throw UserError(str("show --graph: \"", path, "\" cannot be written: ", why,
                        "; name a file in a folder that you may write to"));
}

// "0.0512 s of it exposed", as the timeline has it.
double exposed_of(const Timeline& timeline) {
  double sum = 0;
  for (const auto& stall : timeline.stalls) sum += stall.end - stall.begin;
  return sum;
}
}  // namespace

int show_graph(const GraphArguments& arguments, std::ostream& out) {
  if (!arguments.path.ends_with(".svg"))
    throw UserError(
        str("--graph is \"", arguments.path,
            "\", which does not end in .svg; it names the picture that is written, as in: trainrun "
            "show --graph step.svg configs/quickstart.json"));
  const PlannedRun planned(arguments.config, arguments.nproc, arguments.roofline);
  const StepProgram program = planned.program_of(arguments.rank);
  if (planned.run().step.plan.options.backend == Backend::reference)
    throw UserError(
        "show --graph: the reference backend has no calls whose time could be foretold; leave "
        "compile.backend at "
        "\"native\"");
  if (!planned.roofline()) throw UserError(str("show --graph: ", planned.no_roofline()));
  const PaperRun& run = planned.run();
  const Roofline roofline = roofline_of_rank(*planned.roofline(), run.words, run.step);
  const Timeline timeline =
      timeline_of(program, {run.words, run.step.seats, roofline, planned.config().train.precision});
  const int64_t ranks = run.words.size();
  const std::string what = str("a step of rank ", arguments.rank, ", predicted by the roofline ",
                               roofline.name, ": ", seconds_text(timeline.end), ", of which ",
                               seconds_text(exposed_of(timeline)), " are exposed communication");
  const PictureWords words{
      str(planned.config().name, " on ", ranks, ranks == 1 ? " rank" : " ranks", ", mesh ", text(run.words)),
      what};
  write_picture(
      arguments.path,
      step_picture(program, timeline, first_backward_call(run.step.plan, program.blocks[kBodyBlock]), words));
  out << arguments.path << ": " << what << "\n";
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
