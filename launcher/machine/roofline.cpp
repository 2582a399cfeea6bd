// Roofline: reads rooflines from files, computes a rank's share, and derives bucket sizes from its links.
#include "launcher/machine/roofline.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/reading/given_text.h"
#include "core/reading/json_text.h"

namespace lockstep::launcher {

namespace {
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

int64_t bucket_bytes_for(const LinkSpeed& link, int64_t gradients) {
  const double latency = link.latency * link.bandwidth;
  const double bytes = std::max(std::min(9 * latency, static_cast<double>(gradients) / 4), latency);
  return std::max<int64_t>(1 << 20, static_cast<int64_t>(bytes) >> 16 << 16);
}

int64_t gather_bytes_for(int64_t bucket_bytes, int64_t weights) {
  return std::max(bucket_bytes, std::min(4 * bucket_bytes, weights / 8));
}

}  // namespace lockstep::launcher
