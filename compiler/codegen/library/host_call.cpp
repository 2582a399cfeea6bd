// A registered op's host function as a library call.
#include "compiler/codegen/library/library.h"
#include "core/base/error.h"
#include "core/table/register.h"

namespace lockstep::compiler {

namespace {
class OwnCall : public HostCall {
 public:
  OwnCall(const Node& node, const std::vector<Operand>& in, const std::vector<Operand>& out)
      : host_(op_row(node.op).own->definition.host),
        attrs_(node.attrs),
        operands_(in),
        inputs_(in.size()),
        name_(str("own ", node.op, " ", definition_hash(node.op))) {
    operands_.insert(operands_.end(), out.begin(), out.end());
  }
  void run(void* const* args, void*, int) const override {
    std::vector<OpTensor> tensors;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Shape& shape = operands_[i].shape;
      tensors.push_back(
          {args[i], shape.data(), static_cast<int>(shape.size()), numel(shape), operands_[i].dtype});
    }
    host_(tensors.data(), tensors.data() + inputs_, attrs_);
  }
  std::string algorithm() const override { return name_; }

 private:
  HostFunction host_;
  Attrs attrs_;
  std::vector<Operand> operands_;  // inputs, then outputs
  size_t inputs_;
  std::string name_;
};
}  // namespace

std::unique_ptr<LibraryCall> make_own_call(const Node& node, const std::vector<Operand>& in,
                                           const std::vector<Operand>& out) {
  return std::make_unique<OwnCall>(node, in, out);
}

}  // namespace lockstep::compiler
