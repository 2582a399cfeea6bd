// Overlaps calls of the body with copies: values leave for host memory, and come back for their next reader.
#include <algorithm>
#include <set>

#include "compiler/program/build/builder.h"

namespace lockstep::compiler {

void StepBuilder::run_beside_copies(Turn& turn, int from, int to) {
  std::set<int> cuts{to};
  for (const AwayValue& value : block(kBodyBlock).away)
    for (int call : {value.leaves, value.gone, value.comes, value.back})
      if (from <= call && call < to) cuts.insert(call);
  turn.leaving.resize(block(kBodyBlock).away.size(), -1), turn.coming.resize(turn.leaving.size(), -1);
  for (int cut : cuts) {
    run(kBodyBlock, turn.inputs, from, cut, turn.arena);
    if (cut < to) copies_before(turn, cut);
    from = cut;
  }
}

// Before another value comes to a place, the place is free; before a value is read, it has come.
void StepBuilder::copies_before(Turn& turn, int call) {
  const auto& away = block(kBodyBlock).away;
  for (size_t k = 0; k < away.size(); ++k)
    if (away[k].leaves == call) turn.leaving[k] = start_copy(turn, k, true);
  for (size_t k = 0; k < away.size(); ++k)
    if (away[k].gone == call) writer_.finish(turn.leaving[k]);
  for (size_t k = 0; k < away.size(); ++k)
    if (away[k].comes == call) turn.coming[k] = start_copy(turn, k, false);
  for (size_t k = 0; k < away.size(); ++k)
    if (away[k].back == call) writer_.finish(turn.coming[k]);
}

int StepBuilder::start_copy(const Turn& turn, size_t k, bool to_host) {
  const ProgramBlock& body = block(kBodyBlock);
  const AwayValue& value = body.away[k];
  const Arenas& arenas = arenas_[kBodyBlock];
  const RunBlock run{kBodyBlock, 0, 0, {}, arenas.own[turn.arena], arenas.shared};
  const Span there = arenas.on_host[turn.arena].part(value.at, value.bytes),
             here = span_of(run, to_host ? value.from : value.to, value.bytes);
  const SourceLine& at = body.graph.node(value.node).at;
  const int flight = program_.flights++;
  writer_.put(StartCopies{to_host,
                          {to_host ? CopySpans::Copy{there, here} : CopySpans::Copy{here, there}},
                          flight,
                          str("activation ", k, to_host ? "" : " back",
                              at.scope.empty() ? std::string() : " of " + at.scope)},
              at);
  return flight;
}

}  // namespace lockstep::compiler
