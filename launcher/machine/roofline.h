// Roofline: measured rates at which a kind of device computes, reads and sends; the basis of predicted step
// times.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace lockstep::launcher {

// One rank's share of a link while its peers use it too.
struct LinkSpeed {
  double bandwidth = 0;  // bytes per second sent while receiving the same amount
  double latency = 0;    // seconds of a collective of no bytes
  bool operator==(const LinkSpeed&) const = default;
};

struct Roofline {
  std::string name{};
  std::map<std::string, double> contraction{};  // per train.precision (fp32, tf32, bf16; fp16 is as bf16):
                                                // achieved FLOP/s of dense products
  // the same for attention, forward and backward; empty: as contraction
  std::map<std::string, double> attention{};
  double kernels = 0;    // operations per second of generated kernels; 0: they are bound by bytes only
  double memory = 0;     // bytes per second read and written by kernels
  int64_t capacity = 0;  // bytes of the device's own memory; 0: unknown, or the host's
  double launch = 0;     // overhead of a call in seconds
  LinkSpeed inside{}, across{};  // between ranks of one node, and of different nodes
  LinkSpeed host{};  // between a device and host memory, per direction with both in use; bandwidth 0: shared
                     // memory
  int64_t ranks_per_node = 1;
  int64_t cores = 0;  // 0: rates are of one device per rank; else of this many cores together, which ranks
                      // share
  std::string measured_on{};  // text: the source of the figures

  // The rates of one of `ranks` ranks with `threads` threads each. On devices: unchanged. On cores: the share
  // of its threads, at most an equal part of the node.
  Roofline for_rank(int64_t ranks, int64_t threads) const;
  bool operator==(const Roofline&) const = default;
};

// A missing rate is replaced by that of fp32 (for fp16 and float8 by bf16's), else by the first in the table;
// 0 for an empty table. `precision` is train.precision.
double rate_of(const std::map<std::string, double>& rates, const std::string& precision);
double products_rate(const Roofline& roofline, const std::string& precision);  // FLOP/s of dense products

// One of roofline_names(), or a path of a JSON file with the fields of the struct: {"name": "a100",
// "contraction":
// {"fp32": 1.7e13, "bf16": 2.4e14}, "memory": 1.6e12, "inside": {"bandwidth": 2.4e11, "latency": 3e-5},
// "ranks_per_node": 8}. `across` defaults to `inside`, and `host` to 25 GB/s if rates are of one device;
// attention, kernels, capacity, launch, cores and measured_on are optional. UserError listing all errors: an
// unreadable file, invalid JSON, an unknown key with the nearest one, a missing key, a wrong type, a rate
// that is not above 0.
Roofline roofline_named(const std::string& word);
// The JSON text of a roofline; `where` names it in messages.
Roofline parse_roofline(const std::string& text, const std::string& where);
std::vector<std::string> roofline_names();  // the built-in ones: "h200", "b200", "h100", "a100", "cpu"

// Size of a gradient bucket: bytes whose transfer takes nine times the latency, so that the link reaches 90 %
// of its bandwidth. It uses the table's figures, so that ranks and plans agree without a measurement. At most
// a quarter of all `gradients` bytes, so that transfers can overlap; but at least the bytes whose transfer
// takes as long as the latency (half of the bandwidth), and at least 1 MiB. A multiple of 64 KiB.
int64_t bucket_bytes_for(const LinkSpeed& link, int64_t gradients);
// Size of a gathered bucket of weights: four gradient buckets, at most an eighth of all weights, at least one
// bucket. A gather starts with the calls that read the previous bucket, and its kernel needs a free
// multiprocessor: in a bucket of one or two calls it is late (Llama of 16 blocks on 2 GPUs: 13.5 ms of a step
// exposed with 113 MiB, 5.2 ms with 430 MiB).
int64_t gather_bytes_for(int64_t bucket_bytes, int64_t weights);

// The built-in roofline of a device ("cpu" for the CPU, "h200" for a GPU that describes itself as one, and so
// on); "" if there is none.
std::string roofline_of(const Device& device);

}  // namespace lockstep::launcher
