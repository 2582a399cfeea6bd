// Console: shows the ranks' output as complete lines, prefixed by rank, and below them one live line that is
// rewritten.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

// trainrun's own warning, "trainrun: warning: text" on stderr: something the user may want to change although
// the run continues. Ranks warn through logs::warn.
void warn_user(const std::string& text);

class Console {
 public:
  // `out` receives the lines of ranks; the live line is shown only when it is a terminal.
  explicit Console(std::FILE* out = stdout);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  int columns() const { return columns_; }  // 0 when `out` is not a terminal
  // Ranks whose lines are shown; without a list, all. The progress line is rank 0's.
  void show_ranks(std::optional<std::vector<int64_t>> ranks) { shown_ = std::move(ranks); }
  void line(const std::string& text);  // a line of a rank
  void rank_line(int64_t rank,
                 const std::string& text);  // prefixed "[rank R] " for R > 0, unless it is already
  void notice(const std::string& text);     // "trainrun: text" on stderr, printable()
  void live(const std::string& text);       // replaces the live line; "" removes it

 private:
  bool shows(int64_t rank) const;
  void clear();
  void redraw();
  std::FILE* out_;
  int columns_;
  std::string live_;
  std::optional<std::vector<int64_t>> shown_;
};

// Cuts a stream of bytes into pieces that end with '\n' (lines) or '\r' (live lines).
class LineCutter {
 public:
  struct Piece {
    std::string text;
    bool live;
  };
  void add(const char* data, size_t size) { pending_.append(data, size); }
  bool next(Piece& piece);  // false when no complete piece is left
  std::string rest();       // the incomplete rest, which is then cleared

 private:
  std::string pending_;
};

// Follows a file that another process appends to.
class LogTail {
 public:
  explicit LogTail(std::string path) : path_(std::move(path)) {}
  ~LogTail();
  LogTail(LogTail&& other) noexcept;
  LogTail(const LogTail&) = delete;
  LogTail& operator=(const LogTail&) = delete;
  LogTail& operator=(LogTail&&) = delete;
  // Adds the bytes appended since the last call; a missing file counts as empty. After RankLog replaces the
  // file, the next call switches to the new one, so that late writes to the old file are still read.
  void read(LineCutter& into);

 private:
  void read_rest(LineCutter& into) const;
  bool is_replaced() const;
  std::string path_;
  int fd_ = -1;
  bool replaced_ = false;
};

}  // namespace lockstep::launcher
