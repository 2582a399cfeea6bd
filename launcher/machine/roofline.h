// Roofline: how fast a kind of device computes, reads and sends, as measured; what a predicted step time is
// made of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace lockstep::launcher {

// One rank's share of a link while its peers use theirs.
struct LinkSpeed {
  double bandwidth = 0;  // bytes per second that a rank sends while it receives as many
  double latency = 0;    // seconds of a collective of no bytes
  bool operator==(const LinkSpeed&) const = default;
};

struct Roofline {
  std::string name{};
  std::map<std::string, double> contraction{};  // per train.precision (fp32, tf32, bf16; fp16 is as bf16):
                                                // FLOP/s that dense products reach
  std::map<std::string, double>
      attention{};       // the same for attention, forward and backward; empty: as contraction
  double kernels = 0;    // operations per second of generated kernels; 0: none that bytes do not bound
  double memory = 0;     // bytes per second that kernels read and write
  int64_t capacity = 0;  // bytes of the device's own memory; 0: not known, or the host's
  double launch = 0;     // seconds that a call takes beside its work
  LinkSpeed inside{}, across{};  // between ranks of one node, and of different nodes
  LinkSpeed host{};  // between a device and its host's memory, in each direction while the other is in use;
                     // bandwidth 0: they are one memory
  int64_t ranks_per_node = 1;
  int64_t cores = 0;  // 0: rates are of one device, which a rank has alone; else of this many cores together,
                      // which ranks share
  std::string measured_on{};  // words: where the figures are from

  // The rates of one of `ranks` ranks with `threads` threads each. On devices: as they are. On cores: a rank
  // has its threads' share of them, and no more than the ranks of its node leave it.
  Roofline for_rank(int64_t ranks, int64_t threads) const;
  bool operator==(const Roofline&) const = default;
};

// A rate that a table lacks counts as that of fp32 (fp16 and float8: of bf16), else as the first that it has;
// 0 of an empty one. `precision` is train.precision.
double rate_of(const std::map<std::string, double>& rates, const std::string& precision);
double products_rate(const Roofline& roofline, const std::string& precision);  // FLOP/s of dense products

// One of roofline_names(), or a path of a JSON file with the fields of the struct: {"name": "a100",
// "contraction":
// {"fp32": 1.7e13, "bf16": 2.4e14}, "memory": 1.6e12, "inside": {"bandwidth": 2.4e11, "latency": 3e-5},
// "ranks_per_node": 8}. `across` is `inside` where it is left out, and `host` is 25 GB/s where rates are of
// one device; attention, kernels, capacity, launch, cores and measured_on may be left out. UserError listing
// all that is wrong: a file that cannot be read, no JSON, an unknown key with the nearest one, a missing key,
// a wrong type, a rate that is not above 0.
Roofline roofline_named(const std::string& word);
// The JSON text of a roofline; `where` names it in messages.
Roofline parse_roofline(const std::string& text, const std::string& where);
std::vector<std::string> roofline_names();  // the built-in ones: "h200", "b200", "h100", "a100", "cpu"

// Bytes of a collective that takes nine times its latency: the link then reaches 90 % of its bandwidth.
// Buckets are made of this size, from the table's figures, so that ranks and plans agree on it without a
// measurement. Of `gradients` bytes in all: at most a quarter, so that there is something to overlap, but not
// less than takes its latency alone (half of the bandwidth), nor than 1 MiB. Whole 64 KiB.
int64_t bucket_bytes_for(const LinkSpeed& link, int64_t gradients);
// Buckets of weights that bodies gather: four buckets of gradients, at most an eighth of all weights, at
// least one. A gather begins when the calls that read the bucket before it do, and its kernel only when a
// multiprocessor is free: within a bucket of one or two calls it is late (Llama of 16 blocks on 2 GPUs: 13.5
// ms of a step exposed with 113 MiB, 5.2 ms with 430 MiB).
int64_t gather_bytes_for(int64_t bucket_bytes, int64_t weights);

// The built-in roofline of a device ("cpu" for the CPU, "h200" for a GPU that describes itself as one, and so
// on); "" where there is none.
std::string roofline_of(const Device& device);

}  // namespace lockstep::launcher
