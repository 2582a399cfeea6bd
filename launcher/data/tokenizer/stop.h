// Reading data may take minutes: it ends soon after the process was asked to stop.
#pragma once

#include <exception>

namespace lockstep::launcher::data {

// Leaves what reads data; no Error, since nothing is wrong.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "asked to stop while data was read"; }
};

// `asked` is called from any thread, often, from here on; null: nobody asks.
void stop_reading_when(bool (*asked)());
// Throws Stopped once it says so. In each loop over data, a thousand times a second or more.
void check_stop();

// The same of a loop whose turns are short: looks at one in 65,536.
class StopEvery {
 public:
  void operator()() {
    if ((++turns_ & 0xffff) == 0) check_stop();
  }

 private:
  unsigned turns_ = 0;
};

}  // namespace lockstep::launcher::data
