// A stream that cannot send control codes to the terminal: text passes through printable()
// (core/base/text.h).
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace lockstep::launcher::cli {

// Passes text on at a flush and at its end; a character cut by a flush waits for its rest.
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

// Whether output through `shown` to `out` (standard output) failed, which is then reported to `err`. False if
// the reader closed the pipe, as with `| head`.
bool output_is_cut(std::ostream& shown, std::ostream& out, std::ostream& err);

}  // namespace lockstep::launcher::cli
