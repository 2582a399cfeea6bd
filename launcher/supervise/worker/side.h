// The worker's side of supervision: its place, its log, the stop flag, and the conversion of an exception to
// a record and an exit code.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string_view>

#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

// Runs `body` as a worker and returns the process's exit code for main to return. In order:
//  1 reads the place from the environment and exports RANK and its companions;
//  2 asks the kernel to end this process when its parent dies (only when started by trainrun);
//  3 lets SIGTERM, SIGINT and SIGUSR1 (under trainrun also SIGHUP) set the stop flag; without trainrun a
//  second one ends the process at once with 128 + signal;
//  4 sends stdout and stderr to rank-R.log of the attempt (only when started by trainrun, which echoes them),
//    and opens the flight record progress-R next to it;
//  5 calls body, which returns kExitOk, or kExitStopped after a stop on request.
// An exception becomes an error record (under trainrun) or a message on stderr (without it), and the process
// leaves by _exit with the code of its kind; one that is not an Error counts as InternalError. All except
// UserErrors end the process where they are thrown, by std::terminate, so that no destructor waits for a dead
// peer: call worker_main outside of every handler that would catch them. A body that stopped on request exits
// with 0 under trainrun, which returns kExitStopped when all ranks have exited.
int worker_main(const std::function<int(const WorkerPlace&)>& body);

// The two halves of worker_main, for a program with its own main: steps 1 to 4, and the handling of an
// uncaught exception. `whose`: in Lockstep's worker an exception that is not an Error is a bug in Lockstep
// (InternalError); in a user program it is the user's (ProgramError, kExitProgram, with its type, text and
// place).
enum class Main { lockstep, user };
WorkerPlace enter_worker(Main whose = Main::lockstep);
[[noreturn]] void leave_worker(std::exception_ptr failure);

// True once the worker was asked to stop. Read it at the end of a step, agree with the other ranks, save,
// return kExitStopped.
bool stop_requested();
// The same, or another rank of this trainrun was, which it signals by a file of the attempt. Cheap enough to
// call at any rate.
bool stop_of_any_rank();
// Whether trainrun stops the ranks only to restart them at once with more or fewer of them: then a checkpoint
// in memory suffices.
bool regroup_requested();

// Kind, message and exit code of an exception, as worker_main reports them. The record has no rank, step,
// time or ticket yet.
struct Failure {
  ErrorRecord record;
  int exit_code = 0;
};
Failure describe_failure(std::exception_ptr failure);
// Exits with a failure described by another language; `told`: its message is already on stderr.
[[noreturn]] void leave_worker(Failure failure, bool told);

// The user must fix a file that cannot be reached: "cannot create directory runs/x/ckpt: Not a directory".
std::string file_error_text(const std::filesystem::filesystem_error& error);

// Writes worker-R.json of the attempt: the process of a rank, which handles stop requests from now on.
void announce_worker(const WorkerPlace& place);

// UserError where LOCKSTEP_FAULT is malformed.
void check_fault();
// Whether LOCKSTEP_FAULT names this kind, rank and step: for faults that the run itself injects (flip, burst,
// spike, glitch). The second: whether it names this step or an earlier one, for a lasting fault (wrong).
bool fault_due(const WorkerPlace& place, std::string_view kind, int64_t step);
bool fault_lasts(const WorkerPlace& place, std::string_view kind, int64_t step);
// Fires the fault of LOCKSTEP_FAULT when it names this rank and step; see report_step.
void fire_fault(const WorkerPlace& place, int64_t step);

// Records that `step` is about to run: error records and the flight record carry this number. Fires the fault
// of LOCKSTEP_FAULT when it names this rank and step: "KIND:rank=R,step=S", KIND one of kill (SIGKILL), segv
// (SIGSEGV), hang (SIGSTOP), throw (InternalError), exit (exit with 0); in the first attempt of a trainrun
// only. UserError when LOCKSTEP_FAULT is malformed.
void report_step(int64_t step);

// File descriptor for text that is only for the terminal (the progress line): trainrun shows text that ends
// with '\r' as its last line. It is stdout when trainrun did not start the worker.
int terminal_fd();
// Columns of the terminal the user looks at; 0 when output is not a terminal.
int terminal_columns();

}  // namespace lockstep::launcher
