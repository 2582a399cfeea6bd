// A stream whose text cannot steer the terminal: what is written goes on as printable() (core/base/text.h).
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace lockstep::launcher::cli {

// Passes text on when it is flushed and at its end; a character that is cut by a flush waits for its rest.
class PrintableStream : private std::streambuf, public std::ostream {
 public:
  explicit PrintableStream(std::ostream& to) : std::ostream(this), to_(to) {}
  ~PrintableStream() override;
  PrintableStream(const PrintableStream&) = delete;

 private:
  int overflow(int c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;
  void pass(size_t bytes);

  std::ostream& to_;
  std::string pending_;
};

// Whether something that was written to standard output, through `shown` into `out`, did not go out, which is
// then told to `err`. False where nobody reads any further, as with `| head`.
bool output_is_cut(std::ostream& shown, std::ostream& out, std::ostream& err);

}  // namespace lockstep::launcher::cli
