// Compares two checkpoints: facts by key, tensors block by block.
#include "checkpoint/tools/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "checkpoint/io/write_shard.h"
#include "checkpoint/plan/blocks.h"
#include "checkpoint/tools/open_shards.h"
#include "core/base/text.h"

namespace lockstep::checkpoint {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Leaves of a JSON value, by their path.
void flatten(const Json& value, const std::string& path, std::map<std::string, std::string>& out) {
  if (!value.is_object() || value.empty()) {
    if (!value.is_null() && !(value.is_object() && value.empty())) out[path] = value.dump();
    return;
  }
  for (const auto& [key, inner] : value.items()) flatten(inner, path + "." + key, out);
}

std::vector<FactDifference> facts(const Manifest& a, const Manifest& b) {
  std::vector<FactDifference> out;
  auto fact = [&](const std::string& name, const std::string& x, const std::string& y) {
    if (x != y) out.push_back({name, x, y});
  };
  fact("step", str(a.step), str(b.step));
  fact("mesh", text(a.mesh), text(b.mesh));
  fact("certificate", a.certificate, b.certificate);
  fact("producer", a.producer, b.producer);
  std::map<std::string, std::string> of_a, of_b;
  flatten(a.config, "config", of_a), flatten(b.config, "config", of_b);
  flatten(a.extra, "extra", of_a), flatten(b.extra, "extra", of_b);
  for (const auto& [key, value] : of_a) of_b.try_emplace(key, "-");
  for (const auto& [key, value] : of_b) fact(key, of_a.count(key) ? of_a[key] : "-", value);
  return out;
}

bool near(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

// The index of an element of a block, in the tensor.
std::vector<int64_t> index_of(const Box& block, int64_t at) {
  std::vector<int64_t> out = block.offset;
  for (size_t d = out.size(); d-- > 0;) {
    out[d] += at % block.size[d];
    at /= block.size[d];
  }
  return out;
}

struct Pair {
  const std::byte *a, *b;
};

void compare_block(const Box& block, Pair data, double tolerance, TensorDifference& out) {
  const size_t size = size_of(out.dtype);
  const int64_t n = numel(block);
  if (std::memcmp(data.a, data.b, n * size) == 0) return;
  for (int64_t i = 0; i < n; ++i) {
    if (std::memcmp(data.a + i * size, data.b + i * size, size) == 0) continue;
    const double a = get_double(out.dtype, data.a, i), b = get_double(out.dtype, data.b, i);
    if (tolerance > 0 && is_float(out.dtype) && near(a, b, tolerance)) continue;
    if (out.differing++ == 0) {
      out.first = index_of(block, i);
      out.a = value_text(out.dtype, data.a, i), out.b = value_text(out.dtype, data.b, i);
    }
    const double apart = std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : kInfinity;
    const double larger = std::max(std::abs(a), std::abs(b));
    out.largest = std::max(out.largest, apart);
    out.largest_relative = std::max(out.largest_relative, apart == 0           ? 0
                                                          : apart == kInfinity ? kInfinity
                                                                               : apart / larger);
  }
}

std::string type_text(const TensorRecord* tensor) {
  return tensor ? str(name(tensor->dtype), ' ', tensor->shape) : "";
}
}  // namespace

std::string value_text(DType dtype, const std::byte* data, int64_t i) {
  if (dtype == DType::f64) return number_text(get_double(dtype, data, i));
  if (is_float(dtype)) return number_text(static_cast<float>(get_double(dtype, data, i)));
  if (dtype == DType::boolean) return get_int(dtype, data, i) ? "true" : "false";
  if (dtype == DType::u64) return str(static_cast<uint64_t>(get_int(dtype, data, i)));
  return str(get_int(dtype, data, i));
}

CheckpointDifference compare_checkpoints(const std::string& a, const Manifest& of_a, Storage& storage_a,
                                         const std::string& b, const Manifest& of_b, Storage& storage_b,
                                         double tolerance) {
  CheckpointDifference out;
  out.facts = facts(of_a, of_b);
  OpenShards shards_a(a, of_a, storage_a), shards_b(b, of_b, storage_b);
  std::vector<std::byte> first, second;
  for (const TensorRecord& tensor : of_a.tensors) {
    const TensorRecord* other = of_b.find(tensor.fqn);
    if (!other || other->dtype != tensor.dtype || other->shape != tensor.shape) {
      out.types.push_back({tensor.fqn, type_text(&tensor), type_text(other)});
      continue;
    }
    TensorStream of_first(shards_a, tensor), of_second(shards_b, *other);
    TensorDifference found;
    found.fqn = tensor.fqn, found.dtype = tensor.dtype, found.shape = tensor.shape;
    const auto element = static_cast<int64_t>(size_of(tensor.dtype));
    for_each_block(whole(tensor.shape), kBlockBytes / element, [&](const Box& block, int64_t) {
      first.resize(numel(block) * element), second.resize(numel(block) * element);
      of_first.read(block, first.data());
      of_second.read(block, second.data());
      compare_block(block, {first.data(), second.data()}, tolerance, found);
    });
    of_first.finish(), of_second.finish();
    ++out.compared;
    if (found.differing) out.tensors.push_back(std::move(found));
  }
  for (const TensorRecord& tensor : of_b.tensors)
    if (!of_a.find(tensor.fqn)) out.types.push_back({tensor.fqn, "", type_text(&tensor)});
  return out;
}

}  // namespace lockstep::checkpoint
