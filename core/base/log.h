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
bool enabled(
    const char* topic);  // InternalError for an unknown topic; UserError for an unknown one in LOCKSTEP_LOGS
void topic(const char* topic,
           const std::string& text);  // to stderr, each line prefixed "[topic] ", if enabled

// Lines go out as printable(): what a file or a name holds cannot steer the terminal.
void info(const std::string& line);
void warn(const std::string& line);
void error(const std::string& line);
// Only rank 0 prints info lines; warnings and errors of other ranks are prefixed "[rank R]".
void set_rank(int rank);
// The same for what the calling thread says alone, where ranks are threads of one process; -1: the process's
// rank again.
void set_thread_rank(int rank);
// Takes the lines instead of stderr, with the rank that says them; called from any thread. An empty one:
// stderr again.
using Sink = std::function<void(int rank, const std::string& line)>;
void set_sink(Sink sink);

}  // namespace lockstep::logs
