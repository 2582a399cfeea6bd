// Deadlines: how long a wait for peers may last. There are two numbers, equal for all ranks and their
// supervisor; the pace of the process selects one.
#pragma once

#include <string>

namespace lockstep {

struct Deadlines {
  double step_s = 60;  // while steps follow one another
  // Until the first step has ended. Also while a checkpoint is read or written, and until the next step has
  // ended.
  double start_s = 600;
  bool operator==(const Deadlines&) const = default;
};
// Parses "60,600", or one number for both. Throws UserError, naming `source`, for anything but one or two
// positive numbers.
Deadlines read_deadlines(const std::string& text, const std::string& source = "LOCKSTEP_DEADLINE");
std::string text(const Deadlines& deadlines);  // reads back as the same

// Reads LOCKSTEP_DEADLINE; its value holds for every wait of this process that has no deadline of its own.
// Throws UserError if it is malformed.
void take_deadlines();
// Sets the deadlines to these numbers, unless LOCKSTEP_DEADLINE is set, which takes precedence.
void set_deadlines(const Deadlines& deadlines);

// The current phase of the process, which selects the deadline. Ranks that are threads of one process share
// it.
enum class Pace { start, steps };
void set_pace(Pace pace);
Pace pace();
// Under a supervisor, a rank's own deadline is longer. So the supervisor, which sees all ranks, acts first:
// it ends a wait that takes too long and names the late rank.
void set_supervised(bool supervised);

// The seconds that a wait starting now may last.
double current_deadline();

}  // namespace lockstep
