// Program text under construction: lines in nested scopes.
#pragma once

#include <string>
#include <utility>

namespace lockstep::compiler::codegen {

class Text {
 public:
  void line(const std::string& text) { out_ += indent_ + text + "\n"; }
  void open(const std::string& text) {  // "for (...) {"
    line(text);
    indent_ += "  ";
  }
  void close() {
    indent_.resize(indent_.size() - 2);
    line("}");
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_, indent_ = "  ";
};

}  // namespace lockstep::compiler::codegen
