// A program of a user's own whose rank 1 does what the others do not: group_program FAULT STEP. It sums two
// numbers a step.
#include <lockstep.h>
#include <unistd.h>

#include <vector>
using namespace lockstep;

int main(int argc, char** argv) {
  Session session(argc, argv);
  const std::string fault = session.arguments().at(0);
  const int64_t when = std::stoll(session.arguments().at(1));
  Group& group = *session.mesh().world;
  for (int64_t step = 1; step <= 1'000'000; ++step) {
    std::vector<int64_t> sums(8, 1);
    const bool here = session.rank() == 1 && step == when;
    auto sum = [&](int64_t count, const char* label) {
      all_reduce(group, {sums.data(), sums.data(), count, DType::i64}, label);
    };
    if (here && fault == "barrier") barrier(group, "mine");
    if (here && fault == "extra") sum(2, "mine");
    if (here && fault == "spin")
      for (volatile bool forever = true; forever;) {}
    if (here && fault == "dtype")
      all_reduce(group, {sums.data(), sums.data(), 4, DType::f32}, "count");
    else if (here && fault == "size")
      sum(4, "count");
    else
      sum(2, here && fault == "label" ? "another" : "count");
    if (session.rank() == 1 && fault == "sleep") usleep(30'000);
    usleep(1000);
    session.report(step, {});
    std::vector<int64_t> stops(1, session.stop_requested());
    all_reduce(group, {stops.data(), stops.data(), 1, DType::i64}, "stop");
    if (stops[0]) return kExitStopped;
  }
}
