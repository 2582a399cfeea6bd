// Strict JSON: no duplicate keys, no deep nesting, and typed reads whose errors say where. For bytes that may
// be damaged or hostile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace lockstep::checkpoint::strict {

// All functions throw DamagedError that begins with `where` (a file, then the place within it).
Json parse(std::string_view text, const std::string& where);
const Json& object(const Json& in, const char* key, const std::string& where);
const Json& array(const Json& in, const char* key, const std::string& where);
const Json& any(const Json& in, const char* key, const std::string& where);
std::string text(const Json& in, const char* key, const std::string& where);
// Integers from 0 to 2^63 - 1: negative, fractional and larger numbers are refused.
int64_t natural(const Json& in, const char* key, const std::string& where);
std::vector<int64_t> naturals(const Json& in, const char* key, const std::string& where);
// a * b and a + b of natural numbers; refused when the result exceeds 2^63 - 1.
int64_t multiply(int64_t a, int64_t b, const std::string& where);
int64_t add(int64_t a, int64_t b, const std::string& where);
int64_t elements(const std::vector<int64_t>& shape, const std::string& where);  // product

}  // namespace lockstep::checkpoint::strict
