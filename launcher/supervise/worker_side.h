// The worker's end of supervision: its place, its log, the stop flag, and how an exception becomes a record
// and an exit code.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string_view>

#include "launcher/supervise/contract.h"

namespace lockstep::launcher {

// Runs `body` as a worker and returns the process's exit code for main to return. In order:
//  1 reads the place from the environment and exports RANK and its companions;
//  2 asks the kernel to end this process when its parent dies (only when started by trainrun);
//  3 lets SIGTERM, SIGINT and SIGUSR1 (under trainrun also SIGHUP) set the stop flag; without trainrun a
//  second one ends the process at
//    once with 128 + signal;
//  4 sends stdout and stderr to rank-R.log of the attempt (only when started by trainrun, which echoes them),
//    and opens the flight record progress-R beside it;
//  5 calls body, which returns kExitOk, or kExitStopped after a stop on request.
// An exception becomes an error record (started by trainrun) or a message on stderr (not), and the process
// leaves by _exit with the code of its kind; one that is not an Error counts as InternalError. All but
// UserErrors leave where they are thrown, by std::terminate, so that no destructor waits for a peer that is
// gone: call worker_main outside of every handler that would take them. A body that stopped on request exits
// with 0 under trainrun, which answers with kExitStopped when all ranks have left.
int worker_main(const std::function<int(const WorkerPlace&)>& body);

// The two halves of worker_main, for a program with a main of its own: steps 1 to 4, and what happens to an
// exception that nobody caught. `whose`: an exception that is not an Error is a defect of Lockstep's in its
// own worker (InternalError), and in a program of the user's it is the user's (ProgramError, kExitProgram,
// with its type, text and place).
enum class Main { lockstep, user };
WorkerPlace enter_worker(Main whose = Main::lockstep);
[[noreturn]] void leave_worker(std::exception_ptr failure);

// True once the worker was asked to stop. Read it at the end of a step, agree with the other ranks, save,
// return kExitStopped.
bool stop_requested();
// The same, or that another rank of the same trainrun was, which it tells by a file of the attempt. Asked as
// often as one likes.
bool stop_of_any_rank();
// Whether trainrun asked for it to start the ranks again at once, more or fewer of them: what they keep in
// memory will do.
bool regroup_requested();

// Kind, message and exit code of an exception, as worker_main tells them. The record has no rank, step, time
// or ticket yet.
struct Failure {
  ErrorRecord record;
  int exit_code = 0;
};
Failure describe_failure(std::exception_ptr failure);
// Leaves with a failure that another language describes; `told`: its message stands on stderr already.
[[noreturn]] void leave_worker(Failure failure, bool told);

// A file that cannot be reached is the user's to mend: "cannot create directory runs/x/ckpt: Not a
// directory".
std::string file_error_text(const std::filesystem::filesystem_error& error);

// Writes worker-R.json of the attempt: the process of a rank, which hears a stop request from now on.
void announce_worker(const WorkerPlace& place);

// UserError where LOCKSTEP_FAULT is malformed.
void check_fault();
// Whether LOCKSTEP_FAULT names this kind, rank and step: of faults that the run itself makes (flip, burst,
// spike, glitch); and whether it names this step or one before: of one that lasts (wrong).
bool fault_due(const WorkerPlace& place, std::string_view kind, int64_t step);
bool fault_lasts(const WorkerPlace& place, std::string_view kind, int64_t step);
// Fires the fault of LOCKSTEP_FAULT when it names this rank and step; see report_step.
void fire_fault(const WorkerPlace& place, int64_t step);

// Says that `step` is about to run: the number that an error record and the flight record carry. Fires the
// fault of LOCKSTEP_FAULT when it names this rank and step: "KIND:rank=R,step=S", KIND one of kill (SIGKILL),
// segv (SIGSEGV), hang (SIGSTOP), throw (InternalError), exit (exit with 0); in the first attempt of a
// trainrun only. UserError when LOCKSTEP_FAULT is malformed.
void report_step(int64_t step);

// File descriptor for text that is only for the terminal (the progress line): trainrun shows what ends with
// '\r' as its last line. It is stdout where the worker was not started by trainrun.
int terminal_fd();
// Columns of the terminal the user looks at; 0 when output is not a terminal.
int terminal_columns();

}  // namespace lockstep::launcher
