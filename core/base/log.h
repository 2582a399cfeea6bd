// Logs: a line for people (spdlog), and topics for those who look inside (LOCKSTEP_LOGS="+fusion,-plan").
#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/base/text.h"

namespace lockstep::logs {

struct Topic {
  const char* name;
  const char* help;
};
std::span<const Topic> topics();  // what `trainrun env` lists
// Throws InternalError for an unknown topic, UserError for an unknown one in LOCKSTEP_LOGS.
bool enabled(const char* topic);
// Writes to stderr, each line prefixed "[topic] ", if the topic is enabled.
void topic(const char* topic, const std::string& text);

// Lines are written as printable() text, so that the content of a file or a name cannot control the terminal.
void info(const std::string& line);
void warn(const std::string& line);
void error(const std::string& line);
// Only rank 0 prints info lines; warnings and errors of other ranks are prefixed "[rank R]".
void set_rank(int rank);
// The same for the calling thread only, where ranks are threads of one process; -1 restores the process's
// rank.
void set_thread_rank(int rank);
// Receives the lines instead of stderr, with the rank that logs them; called from any thread. An empty sink
// restores stderr.
using Sink = std::function<void(int rank, const std::string& line)>;
void set_sink(Sink sink);

}  // namespace lockstep::logs
