// Files of numpy's, as numpy.save writes them.
#pragma once

#include <string>
#include <vector>

namespace lockstep::tests {

// Version 1, in C's order: npy("<f4", "20, 2", values).
template <class T>
std::string npy(const std::string& type, const std::string& shape, const std::vector<T>& values) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() % 256);
  out += static_cast<char>(header.size() / 256);
  return out + header + std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace lockstep::tests
