// The cases of functions/make.py by name: the same calls in this language.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/functions/functions.h"

namespace lockstep::golden {

using Tensors = std::vector<Tensor>;
const std::map<std::string, std::function<Tensors(const Tensors&)>>& functions();
std::map<std::string, std::function<Tensors(const Tensors&)>>
matrices();  // of them those of core/functions/matrices/linalg.h
std::map<std::string, std::function<Tensors(const Tensors&)>> later();  // and those at the end of make.py

}  // namespace lockstep::golden
