// Tracks the states of values: starts and waits change them, and runs of the body check them.
#include "compiler/program/check/values_away.h"

#include <algorithm>

#include "core/base/text.h"

namespace lockstep::compiler {

std::vector<ValuesAway::Value>& ValuesAway::of(int arena) {
  auto& values = values_[arena];
  values.resize(all().size());
  return values;
}

int ValuesAway::arena_of(const StartCopies& start) const {
  if (start.copies.empty()) return -1;
  const int region = (start.to_host ? start.copies[0].from : start.copies[0].to).region;
  return program_.regions[region].kind == Region::Kind::arena ? region : -1;
}

std::string ValuesAway::start(const StartCopies& start, int reached) {
  for (const auto& [to, from] : start.copies) {
    const Span &here = start.to_host ? from : to, &there = start.to_host ? to : from;
    // Values that wait one after another may share places: take the one in progress, if there is one.
    const auto is_it = [&](const AwayValue& value) {
      return (start.to_host ? value.from : value.to).offset == here.offset && value.at == there.offset &&
             value.bytes == here.bytes;
    };
    const auto in_turn = [&](const AwayValue& value) {
      return is_it(value) && (start.to_host ? value.leaves : value.comes) <= reached &&
             reached <= (start.to_host ? value.gone : value.back);
    };
    auto found = std::find_if(all().begin(), all().end(), in_turn);
    if (found == all().end()) found = std::find_if(all().begin(), all().end(), is_it);
    const auto k = static_cast<size_t>(found - all().begin());
    if (k == all().size()) return str("\"", start.label, "\" copies what the body does not let wait");
    Value& value = of(here.region)[k];
    if (value.at != (start.to_host ? At::arena : At::host))
      return str("\"", start.label, "\" starts where activation ", k,
                 start.to_host ? " has left" : " is not gone");
    if (!start.to_host && value.host != there)
      return str("\"", start.label, "\" brings activation ", k, " from where it does not wait");
    const int first = start.to_host ? all()[k].leaves : all()[k].comes,
              last = start.to_host ? all()[k].gone : all()[k].back;
    if (reached < first || reached > last)
      return str("\"", start.label, "\" starts before call ", reached, " and not between ", first, " and ",
                 last);
    value = {start.to_host ? At::leaving : At::coming, start.flight, there};
  }
  return "";
}

void ValuesAway::end(int flight) {
  for (auto& [arena, values] : values_)
    for (Value& value : values)
      if (value.flight == flight)
        value.at = value.at == At::leaving ? At::host : At::again, value.flight = -1;
}

std::string ValuesAway::run(const RunBlock& run) {
  if (run.block != kBodyBlock || all().empty()) return "";
  auto& values = of(run.own.region);
  if (run.first == 0) std::fill(values.begin(), values.end(), Value{});
  for (size_t k = 0; k < values.size(); ++k) {
    const bool gone = values[k].at != At::arena && values[k].at != At::leaving;
    if (run.last > all()[k].gone && !gone)
      return str("runs call ", all()[k].gone, " where activation ", k, " is not gone");
    if (run.last > all()[k].back && values[k].at != At::again)
      return str("runs call ", all()[k].back, " where activation ", k, " is not back");
  }
  return "";
}

}  // namespace lockstep::compiler
