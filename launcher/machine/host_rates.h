// HostRates: measured rates of this host's processor (products, attention, memory copies), stored next to the
// kernel cache.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launcher/machine/roofline.h"

namespace lockstep::launcher {

struct HostRates {
  std::string processor{};  // its name, and the product library with its instruction set
  int64_t cores = 0;        // cores used for the measurement: those of this process
  std::map<std::string, double> products{}, attention{};  // FLOP/s of them together, by train.precision
  double copies = 0;  // bytes per second read and written by `copying` cores together
  int64_t copying = 0;
  LinkSpeed link{};   // between two ranks; bandwidth 0: not measured, as trainrun doctor does
  bool quiet = true;  // the host was otherwise idle
  int64_t at = 0;     // seconds since 1970
  bool operator==(const HostRates&) const = default;
};

double copy_rate(int64_t threads);  // bytes per second read and written by all threads; takes 0.1 s
HostRates measure_host_rates();     // with all cores of this process; takes about 0.75 s
std::string host_processor();       // HostRates::processor of this host

// Stored rates of this processor and number of cores; nullopt if there are none, or the folder must not be
// used.
std::optional<HostRates> stored_host_rates();
void store(const HostRates& rates);  // in the kernel cache; does nothing if it is not writable
// The stored rates, else measures and stores them; call it while nothing else of the run computes. Rates
// measured on a busy host are measured again after an hour, or by trainrun doctor. nullopt without the memory
// or threads.
std::optional<HostRates> host_rates();

// The built-in roofline "cpu" scaled by these rates. Rates that are not measured are scaled too: generated
// kernels like products, links between ranks like copies.
Roofline cpu_with(const HostRates& rates);

// roofline_named(word), but for "cpu" this host's if known. Plans and predictions for the CPU use it unless
// --roofline is given.
Roofline roofline_here(const std::string& word);
// The same without measuring, for a busy host: without stored rates it is the built-in table.
Roofline roofline_stored_here(const std::string& word);

}  // namespace lockstep::launcher
