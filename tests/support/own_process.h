// Runs a test's statements in a process of their own: what is opened once per process is opened there, under
// the environment given.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace lockstep {

// What `run` gives, or "KIND: message" of the error that it throws.
inline std::string in_own_process(const std::vector<std::pair<std::string, std::string>>& environment,
                                  const std::function<std::string()>& run) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(60);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    std::string text;
    try {
      text = run();
    } catch (const Error& error) {
      text = str(error.kind(), ": ", error.what());
    } catch (const std::exception& error) { text = str("exception: ", error.what()); }
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t n = write(ends[1], text.data() + done, text.size() - done);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string out;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) out.append(part, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the process ended with status " << status;
  return out;
}

inline void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "\"" << word << "\" is missing in: " << text;
}

}  // namespace lockstep
