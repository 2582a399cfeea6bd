// Deadlines: how long a wait for peers may last. Two numbers, equal for all ranks and their supervisor, and
// which of them holds now.
#pragma once

#include <string>

namespace lockstep {

struct Deadlines {
  double step_s = 60;    // while steps follow one another
  double start_s = 600;  // until the first step has ended; while a checkpoint is read or written, and until
                         // the step after it has ended
  bool operator==(const Deadlines&) const = default;
};
// "60,600", or one number for both. UserError naming `source` when it is no positive number, or no pair of
// them.
Deadlines read_deadlines(const std::string& text, const std::string& source = "LOCKSTEP_DEADLINE");
std::string text(const Deadlines& deadlines);  // reads back as the same

// Takes LOCKSTEP_DEADLINE as it is now for every wait of this process that has no deadline of its own.
// UserError when it is malformed.
void take_deadlines();
// The same for given numbers, unless LOCKSTEP_DEADLINE is set: then that holds.
void set_deadlines(const Deadlines& deadlines);

// What the process does now. Ranks that are threads of one process share it.
enum class Pace { start, steps };
void set_pace(Pace pace);
Pace pace();
// A supervisor that knows all ranks ends what waits too long, and names who kept it waiting: the ranks give
// it time to do so first.
void set_supervised(bool supervised);

// Seconds that a wait which begins now may last.
double current_deadline();

}  // namespace lockstep
