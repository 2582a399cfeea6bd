// Lets long data reads end soon after the process was asked to stop.
#pragma once

#include <exception>

namespace lockstep::launcher::data {

// Thrown to leave data reading; not an Error, because nothing is wrong.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "asked to stop while data was read"; }
};

// Sets the callback, which is then called often and from any thread; null: none.
void stop_reading_when(bool (*asked)());
// Throws Stopped once the callback returns true. Called in each loop over data, a thousand times a second or
// more.
void check_stop();

// The same for a loop with short iterations: checks once in 65,536.
class StopEvery {
 public:
  void operator()() {
    if ((++turns_ & 0xffff) == 0) check_stop();
  }

 private:
  unsigned turns_ = 0;
};

}  // namespace lockstep::launcher::data
