// PrintableStream's buffer: passes on whole lines, and the rest on a flush.
#include "launcher/cli/printable_stream.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "core/base/text.h"

namespace lockstep::launcher::cli {

namespace {
// The number of bytes of an incomplete UTF-8 character at the end of a text.
size_t begun(const std::string& text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return whole > back ? back : 0;
  }
  return 0;
}
}  // namespace

PrintableStream::~PrintableStream() {
  pass(pending_.size());
  to_.flush();
}

void PrintableStream::pass(size_t bytes) {
  to_ << printable(std::string_view(pending_).substr(0, bytes));
  pending_.erase(0, bytes);
}

int PrintableStream::overflow(int c) {
  const char one = static_cast<char>(c);
  if (c != EOF) xsputn(&one, 1);
  return 0;
}

std::streamsize PrintableStream::xsputn(const char* text, std::streamsize count) {
  pending_.append(text, count);
  if (const size_t end = pending_.rfind('\n'); end != std::string::npos) pass(end + 1);
  return count;
}

int PrintableStream::sync() {
  pass(pending_.size() - begun(pending_));
  to_.flush();
  return 0;
}

bool output_is_cut(std::ostream& shown, std::ostream& out, std::ostream& err) {
  shown.flush();
  out.flush();
  pollfd reader{STDOUT_FILENO, POLLOUT, 0};
  if (out || (poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR))) return false;
  err << "trainrun: the output is cut: standard output takes no more; is its disk full?" << std::endl;
  return true;
}

}  // namespace lockstep::launcher::cli
