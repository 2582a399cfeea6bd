// C++ on vectors: a value is the LS_W neighbouring elements of a row that begin at column c.
#pragma once

#include "compiler/codegen/statements/dialect.h"

namespace lockstep::compiler::cpu {

const codegen::Dialect& dialect();

}  // namespace lockstep::compiler::cpu
