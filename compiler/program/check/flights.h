// Flights: operations in progress (started and not yet waited for) in a walk over a program, and the memory
// that they occupy.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/words/program.h"
#include "core/base/text.h"

namespace lockstep::compiler {

inline bool overlap(const Span& a, const Span& b) {
  return a.region == b.region && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

class Flights {
 public:
  struct Flight {
    const Instr* start = nullptr;
    std::string label;
    std::vector<Span> from, to;
  };
  explicit Flights(const StepProgram& program) : program_(program), waited_(program.flights, false) {}

  // False: it was started before, or its number is not one of the program's.
  bool begin(int number, Flight flight) {
    if (number < 0 || number >= program_.flights || waited_[number]) return false;
    for (const auto* spans : {&flight.from, &flight.to})
      for (const Span& span : *spans) holds_[span.region].push_back(number);
    return flying_.emplace(number, std::move(flight)).second;
  }
  // Ends a flight at its wait and returns it; without a start: nothing was in progress.
  Flight end(int number) {
    const auto found = flying_.find(number);
    if (found == flying_.end()) return {};
    Flight out = std::move(found->second);
    for (const auto* spans : {&out.from, &out.to})
      for (const Span& span : *spans) std::erase(holds_[span.region], number);
    flying_.erase(found);
    waited_[number] = true;
    return out;
  }
  // The first flight without a wait; none: -1 and null.
  std::pair<int, const Instr*> open() const {
    return flying_.empty() ? std::pair<int, const Instr*>{-1, nullptr}
                           : std::pair{flying_.begin()->first, flying_.begin()->second.start};
  }
  // Why an access must wait; "" if it need not.
  std::string refused(const Span& span, bool written) const {
    const auto found = holds_.find(span.region);
    if (found == holds_.end()) return "";
    for (int number : found->second) {
      const Flight& flight = flying_.at(number);
      const auto meets = [&](const std::vector<Span>& spans) {
        for (const Span& held : spans)
          if (overlap(span, held)) return true;
        return false;
      };
      const std::string& name = program_.regions[span.region].name;
      if (!written && meets(flight.to))
        return str("reads ", name, " while \"", flight.label, "\" is still writing it");
      if (written && (meets(flight.to) || meets(flight.from)))
        return str("writes ", name, " while \"", flight.label, "\" is under way");
    }
    return "";
  }

 private:
  const StepProgram& program_;
  std::map<int, Flight> flying_;
  // Per region: numbers of flights, one entry for each of their spans in it.
  std::map<int, std::vector<int>> holds_;
  std::vector<bool> waited_;
};

}  // namespace lockstep::compiler
