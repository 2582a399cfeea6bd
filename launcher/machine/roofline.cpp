// The rooflines that are built in, and those of files.
#include "launcher/machine/roofline.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/reading/given_text.h"
#include "core/reading/json_text.h"

namespace lockstep::launcher {

namespace {
// Products reach 550 to 820 TFLOP/s in bf16 by shape, in float8 780 to 1,250, in fp32 86 to 119. Memory: 4.0
// TB/s and more in kernels that stream. Links inside a node: the all-to-all of bench-gpu-exchange on 4 GPUs.
// Across nodes nothing was measured: one 400 Gb/s adapter per GPU, four fifths of it. The way to the host:
// the moments of GPT-2 1558M, each way at once (53 GB/s).
Roofline h200() {
  return {.name = "h200",
          .contraction = {{"fp32", 9.5e13}, {"tf32", 3.4e14}, {"bf16", 6.4e14}, {"float8", 1.03e15}},
          .attention = {{"fp32", 3.6e13}, {"tf32", 9.5e13}, {"bf16", 3.2e14}},
          .memory = 4.0e12,
          .capacity = int64_t{140} << 30,
          .launch = 2e-6,
          .inside = {3.3e11, 4e-5},
          .across = {4e10, 6e-5},
          .host = {5.3e10, 1e-5},
          .ranks_per_node = 8,
          .cores = 0,
          .measured_on = "H200 SXM, 1 to 4 of one node"};
}
// From bench-step (6 layers, 384 wide, 16 x 256 tokens: 1.06 s) and the quickstart (29.8k tokens/s on 2
// ranks); links as MPI's shared memory.
Roofline cpu() {
  return {.name = "cpu",
          .contraction = {{"fp32", 3.6e11}, {"bf16", 2.4e11}},
          .attention = {{"fp32", 1.5e11}, {"bf16", 1.2e11}},
          .kernels = 6e10,
          .memory = 2e10,
          .launch = 5e-6,
          .inside = {2.0e9, 1e-4},
          .across = {1.0e9, 2e-4},
          .ranks_per_node = 64,
          .cores = 2,
          .measured_on = "2 cores of a server processor with AVX-512, one host"};
}

using Errors = std::vector<std::string>;

const std::vector<std::string> kKeys = {"name",           "contraction", "attention",  "kernels", "memory",
                                        "capacity",       "launch",      "inside",     "across",  "host",
                                        "ranks_per_node", "cores",       "measured_on"};
const std::vector<std::string> kPrecisions = {"fp32", "tf32", "bf16", "float8"};

std::string unknown(const std::string& path, const std::string& key, const std::vector<std::string>& known) {
  std::string near = nearest(key, known);
  return str("unknown key ", path, key, "; ",
             near.empty() ? str("the keys are ", join(known, ", ")) : str("did you mean ", path, near, "?"));
}
void number(const Json& value, const std::string& path, bool zero, double& to, Errors& errors) {
  if (!value.is_number() || !(zero ? value.get<double>() >= 0 : value.get<double>() > 0))
    errors.push_back(
        str(path, " is ", value.dump(), "; it must be a number ", zero ? "of at least 0" : "above 0"));
  else
    to = value.get<double>();
}
void count(const Json& value, const std::string& path, int64_t low, int64_t& to, Errors& errors) {
  if (!value.is_number_integer() || value.get<int64_t>() < low)
    errors.push_back(str(path, " is ", value.dump(), "; it must be a whole number of at least ", low));
  else
    to = value.get<int64_t>();
}
void rates(const Json& value, const std::string& path, std::map<std::string, double>& to, Errors& errors) {
  if (!value.is_object() || value.empty()) {
    errors.push_back(str(path, " is ", value.dump(), "; it must be a section with rates for some of ",
                         join(kPrecisions, ", ")));
    return;
  }
  for (const auto& [name, rate] : value.items()) {
    if (std::find(kPrecisions.begin(), kPrecisions.end(), name) == kPrecisions.end())
      errors.push_back(unknown(path + ".", name, kPrecisions));
    else
      number(rate, str(path, ".", name), false, to[name], errors);
  }
}
void link(const Json& value, const std::string& path, LinkSpeed& to, Errors& errors) {
  static const std::vector<std::string> keys = {"bandwidth", "latency"};
  if (!value.is_object()) {
    errors.push_back(
        str(path, " is ", value.dump(), "; it must be a section with the keys bandwidth, latency"));
    return;
  }
  for (const auto& [name, entry] : value.items())
    if (std::find(keys.begin(), keys.end(), name) == keys.end())
      errors.push_back(unknown(path + ".", name, keys));
  if (!value.contains("bandwidth")) errors.push_back(str(path, ".bandwidth is missing"));
  if (value.contains("bandwidth"))
    number(value["bandwidth"], path + ".bandwidth", false, to.bandwidth, errors);
  if (value.contains("latency")) number(value["latency"], path + ".latency", true, to.latency, errors);
}
void words(const Json& value, const std::string& path, std::string& to, Errors& errors) {
  if (!value.is_string())
    errors.push_back(str(path, " is ", value.dump(), "; it must be text"));
  else
    to = value.get<std::string>();
}
}  // namespace

Roofline Roofline::for_rank(int64_t ranks, int64_t threads) const {
  if (!cores) return *this;
  const int64_t here = std::max<int64_t>(1, std::min(ranks, ranks_per_node));
  const double share = std::min(
      {1.0, static_cast<double>(threads) / static_cast<double>(cores), 1.0 / static_cast<double>(here)});
  Roofline out = *this;
  for (auto* table : {&out.contraction, &out.attention})
    for (auto& [precision, rate] : *table) rate *= share;
  out.kernels *= share;
  out.memory *= share;
  out.cores = 0;
  return out;
}

double rate_of(const std::map<std::string, double>& rates, const std::string& precision) {
  if (rates.empty()) return 0;
  if (auto found = rates.find(precision); found != rates.end()) return found->second;
  if (precision == "fp16" || precision == "float8") return rate_of(rates, "bf16");
  if (auto found = rates.find("fp32"); found != rates.end()) return found->second;
  return rates.begin()->second;
}
double products_rate(const Roofline& roofline, const std::string& precision) {
  return rate_of(roofline.contraction, precision);
}

Roofline parse_roofline(const std::string& text, const std::string& where) {
  Roofline out;
  Errors errors;
  JsonText read = read_json(text);
  const Json& root = read.value;
  if (!read.errors.empty()) {
    errors = std::move(read.errors);
  } else if (!root.is_object()) {
    errors.push_back("no section; a roofline is {\"name\": ..., \"contraction\": {...}, ...}");
  } else {
    for (const auto& [key, value] : root.items()) {
      if (key == "name")
        words(value, key, out.name, errors);
      else if (key == "measured_on")
        words(value, key, out.measured_on, errors);
      else if (key == "contraction")
        rates(value, key, out.contraction, errors);
      else if (key == "attention")
        rates(value, key, out.attention, errors);
      else if (key == "kernels")
        number(value, key, true, out.kernels, errors);
      else if (key == "memory")
        number(value, key, false, out.memory, errors);
      else if (key == "capacity")
        count(value, key, 0, out.capacity, errors);
      else if (key == "launch")
        number(value, key, true, out.launch, errors);
      else if (key == "inside")
        link(value, key, out.inside, errors);
      else if (key == "across")
        link(value, key, out.across, errors);
      else if (key == "host")
        link(value, key, out.host, errors);
      else if (key == "ranks_per_node")
        count(value, key, 1, out.ranks_per_node, errors);
      else if (key == "cores")
        count(value, key, 0, out.cores, errors);
      else
        errors.push_back(unknown("", key, kKeys));
    }
    for (const char* key : {"name", "contraction", "memory", "inside", "ranks_per_node"})
      if (!root.contains(key)) errors.push_back(str(key, " is missing"));
    if (!root.contains("across")) out.across = out.inside;
    if (!root.contains("host") && out.cores == 0) out.host = {2.5e10, 1e-5};  // PCIe 4 x16
  }
  if (errors.empty()) return out;
  throw UserError(errors.size() == 1 ? str(where, ": ", errors[0])
                                     : str(where, ": ", errors.size(), " errors\n  ", join(errors, "\n  ")));
}

std::vector<std::string> roofline_names() { return {"h200", "cpu"}; }

Roofline roofline_named(const std::string& word) {
  if (word == "h200") return h200();
  if (word == "cpu") return cpu();
  const GivenText file = read_given(word, kJsonBytes);
  if (!file.problem.empty()) {
    std::string near = nearest(word, roofline_names());
    throw UserError(str("--roofline is \"", word,
                        "\", which is neither h200 nor cpu nor a file that can be read",
                        near.empty() ? "; a file holds name, contraction, memory, inside and ranks_per_node"
                                     : str("; did you mean ", near, "?")));
  }
  return parse_roofline(file.text, word);
}

int64_t bucket_bytes_for(const LinkSpeed& link, int64_t gradients) {
  const double latency = link.latency * link.bandwidth;
  const double bytes = std::max(std::min(9 * latency, static_cast<double>(gradients) / 4), latency);
  return std::max<int64_t>(1 << 20, static_cast<int64_t>(bytes) >> 16 << 16);
}

int64_t gather_bytes_for(int64_t bucket_bytes, int64_t weights) {
  return std::max(bucket_bytes, std::min(4 * bucket_bytes, weights / 8));
}

std::string roofline_of(const Device& device) {
  if (device.kind() == "cpu") return "cpu";
  std::string words = device.describe();
  std::transform(words.begin(), words.end(), words.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return device.kind() == "cuda" && words.find("h200") != std::string::npos ? "h200" : "";
}

}  // namespace lockstep::launcher
