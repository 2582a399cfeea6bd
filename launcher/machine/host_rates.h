// What the processor of this host reaches, measured once and stored beside the kernels: products, attention,
// copies of memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launcher/machine/roofline.h"

namespace lockstep::launcher {

struct HostRates {
  std::string processor{};  // its name, and the library of products with its instruction set
  int64_t cores = 0;        // that measured together: those of this process
  std::map<std::string, double> products{}, attention{};  // FLOP/s of them together, by train.precision
  double copies = 0;  // bytes per second that `copying` of them read and write together
  int64_t copying = 0;
  LinkSpeed link{};   // between two ranks; bandwidth 0: not measured, as trainrun doctor does
  bool quiet = true;  // nobody else used the host then
  int64_t at = 0;     // seconds since 1970
  bool operator==(const HostRates&) const = default;
};

double copy_rate(int64_t threads);  // bytes per second that threads read and write together; 0.1 s
HostRates measure_host_rates();     // of all cores of this process; about three quarters of a second
std::string host_processor();       // what HostRates::processor says of this host

// Those in the kernel cache, if they are of this processor and as many cores; nothing where there are none,
// or the folder is not to be used.
std::optional<HostRates> stored_host_rates();
void store(const HostRates& rates);  // in the kernel cache; one that takes no file keeps none
// The stored ones, else measured now and stored: where nothing else of the run computes yet. Those that were
// measured beside others are measured again an hour later, or by trainrun doctor. Nothing where there is no
// room or no thread for that.
std::optional<HostRates> host_rates();

// The built-in roofline "cpu" as these rates have it. What is not measured follows: generated kernels as
// products do, links between ranks as copies do.
Roofline cpu_with(const HostRates& rates);

// roofline_named(word), but of "cpu" this host's, where it is known: what plans and predictions of the CPU
// take unless --roofline says otherwise.
Roofline roofline_here(const std::string& word);
// The same where others compute beside it, so that nothing can be measured: without stored rates the table.
Roofline roofline_stored_here(const std::string& word);

}  // namespace lockstep::launcher
