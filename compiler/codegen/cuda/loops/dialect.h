// CUDA C++: a value is one element.
#pragma once

#include <string>

#include "compiler/codegen/statements/dialect.h"

namespace lockstep::compiler::cuda {

class CudaDialect : public codegen::Dialect {
 public:
  // `number` is the integer type of indices ("int", "long").
  explicit CudaDialect(std::string number) : number_(std::move(number)) {}

  std::string_view type(DType dtype) const override;
  codegen::IndexWords index_words(const std::string& column) const override;
  std::string truth(bool value) const override { return value ? "true" : "false"; }
  std::string infinity(bool wide) const override;
  std::string not_a_number(bool wide) const override;
  std::string literal(DType dtype, const Number& value) const override;
  bool undefined_for_integers(ScalarVerb) const override { return true; }
  std::string divided(DType dtype, const std::string& operand, double by) const override;
  std::string combined(codegen::FoldOp fold, const std::string& a, const std::string& b) const override {
    return str(functor(fold), "(", a, ", ", b, ")");
  }
  static std::string functor(codegen::FoldOp fold);  // "ls_sum()"

  // The arguments of ls_random and ls_random_run for an item.
  std::string random_words(const codegen::Site& site) const { return random_arguments(site); }

 private:
  std::string number_;
};

}  // namespace lockstep::compiler::cuda
