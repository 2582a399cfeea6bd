// Lines, the live line, and following logs.
#include "launcher/supervise/launch/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"

namespace lockstep::launcher {

void warn_user(const std::string& text) { logs::warn(str("trainrun: warning: ", text)); }

Console::Console(std::FILE* out) : out_(out), columns_(0) {
  winsize size{};
  if (isatty(fileno(out_)))
    columns_ = ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}
Console::~Console() { live(""); }

namespace {
// Strips the "erase to end of line" code that a program writes for its own terminal.
std::string bare(std::string text) {
  constexpr std::string_view kErase = "\033[K";
  if (text.size() >= kErase.size() && text.compare(text.size() - kErase.size(), kErase.size(), kErase) == 0)
    text.resize(text.size() - kErase.size());
  return text;
}
}  // namespace

void Console::clear() {
  if (!live_.empty()) std::fputs("\r\033[K", out_);
}
void Console::redraw() {
  if (!live_.empty()) std::fputs(live_.c_str(), out_);
  std::fflush(out_);
}
void Console::line(const std::string& text) {
  clear();
  std::fputs((bare(text) + "\n").c_str(), out_);
  redraw();
}
bool Console::shows(int64_t rank) const {
  return !shown_ || std::find(shown_->begin(), shown_->end(), rank) != shown_->end();
}
void Console::rank_line(int64_t rank, const std::string& text) {
  if (!shows(rank)) return;
  line(rank > 0 && text.rfind("[rank ", 0) != 0 ? str("[rank ", rank, "] ", text) : text);
}
void Console::notice(const std::string& text) {
  clear();
  std::fflush(out_);
  std::fputs(str("trainrun: ", printable(text), "\n").c_str(), stderr);
  redraw();
}
void Console::live(const std::string& text) {
  if (columns_ == 0 || !shows(0)) return;
  clear();
  live_ = bare(text).substr(0, static_cast<size_t>(columns_) - 1);
  redraw();
}

bool LineCutter::next(Piece& piece) {
  size_t end = pending_.find_first_of("\r\n");
  if (end == std::string::npos) return false;
  if (pending_[end] == '\r' && end + 1 < pending_.size() &&
      pending_[end + 1] == '\n') {  // a Windows line ending
    piece = {pending_.substr(0, end), false};
    pending_.erase(0, end + 2);
    return true;
  }
  piece = {pending_.substr(0, end), pending_[end] == '\r'};
  pending_.erase(0, end + 1);
  return true;
}
std::string LineCutter::rest() { return std::exchange(pending_, {}); }

LogTail::~LogTail() {
  if (fd_ >= 0) close(fd_);
}
LogTail::LogTail(LogTail&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

void LogTail::read_rest(LineCutter& into) const {
  char buffer[16384];
  for (ssize_t n; (n = ::read(fd_, buffer, sizeof buffer)) > 0;) into.add(buffer, n);
}

bool LogTail::is_replaced() const {
  struct stat open{}, there{};
  return fstat(fd_, &open) == 0 && stat(path_.c_str(), &there) == 0 && open.st_ino != there.st_ino;
}

void LogTail::read(LineCutter& into) {
  if (fd_ < 0) fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) return;
  read_rest(into);
  const bool before = std::exchange(replaced_, is_replaced());
  if (!replaced_ || !before) return;
  close(fd_);
  replaced_ = false;
  fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ >= 0) read_rest(into);
}

}  // namespace lockstep::launcher
