// compile() where one rank fails after the kernels were sent: every rank learns of it, and none waits.
#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "compiler/codegen/target.h"
#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"

namespace lockstep {

using namespace compiler;

namespace {

// The CPU, until a step asks for its reductions.
class Failing : public Target {
 public:
  explicit Failing(std::function<void()> fail) : fail_(std::move(fail)) {}
  Device& device() const override { return cpu_target().device(); }
  bool claims(OpId op) const override { return cpu_target().claims(op); }
  bool is_library_op(OpId op) const override { return cpu_target().is_library_op(op); }
  bool accepts_strides(const Node& node, size_t index) const override {
    return cpu_target().accepts_strides(node, index);
  }
  KernelSource generate(const Graph& body) const override { return cpu_target().generate(body); }
  KernelSource generate_multi_tensor(const Graph& body) const override {
    return cpu_target().generate_multi_tensor(body);
  }
  std::shared_ptr<const KernelSet> compile(std::vector<KernelSource> sources,
                                           const TargetOptions& options) const override {
    return cpu_target().compile(std::move(sources), options);
  }
  std::shared_ptr<const KernelSet> load(const std::string& binary) const override {
    return cpu_target().load(binary);
  }
  std::unique_ptr<LibraryCall> make_library_call(const Node& node, const std::vector<Operand>& in,
                                                 const std::vector<Operand>& out,
                                                 const TargetOptions& options) const override {
    return cpu_target().make_library_call(node, in, out, options);
  }
  std::unique_ptr<Reductions> make_reductions(const TargetOptions& options) const override {
    fail_();
    return cpu_target().make_reductions(options);
  }
  std::string library_version() const override { return cpu_target().library_version(); }

 private:
  std::function<void()> fail_;
};

// What each rank throws where rank `bad` of 3 fails: "kind: message".
std::vector<std::string> errors(int bad, const std::function<void()>& fail) {
  std::vector<std::string> out(3);
  std::atomic<int> left = 0;
  try {
    distributed::with_ranks(3,
                            [&](LiveMesh& mesh) {
                              Failing target(mesh.rank == bad ? fail : [] {});
                              State state(mesh, 3);
                              state.root().parameter("a", {6, 8}, init::normal(0.5));
                              Sgd sgd(state / "optim", SgdOptions{.lr = 0.1});
                              CompileOptions options;
                              options.target = &target;
                              try {
                                compile(
                                    state, {{"x", DType::f32, {2, 8}}}, {8, 2, 0},
                                    [&](const std::vector<Tensor>& batch) {
                                      Tensor y = linear(batch[0], state.find_spec("a")(batch[0]));
                                      Loss loss{sum(y * y, {0, 1}),
                                                sum(convert(full_like(y, 1), DType::i64), {0, 1})};
                                      sgd.update(grad(loss, state.parameters()));
                                      return loss;
                                    },
                                    options);
                              } catch (const Error& error) {
                                out[static_cast<size_t>(mesh.rank)] = str(error.kind(), ": ", error.what());
                              } catch (const std::exception& error) {
                                out[static_cast<size_t>(mesh.rank)] = str("exception: ", error.what());
                              }
                              // All are here before one ends, except where a peer is lost anyway.
                              ++left;
                            },
                            {.deadline_s = 20});
  } catch (const std::exception& error) { out.push_back(error.what()); }
  EXPECT_EQ(left, 3);
  return out;
}

using Texts = std::vector<std::string>;

TEST(FailedRank, AUserErrorIsEveryRanks) {
  for (int bad : {0, 2}) {
    const std::string text = str("UserError: rank ", bad, ": out of memory, use a smaller micro-batch");
    EXPECT_EQ(errors(bad, [] { throw UserError("out of memory, use a smaller micro-batch"); }),
              (Texts{text, text, text}));
  }
}

TEST(FailedRank, ADefectIsToldAsOneWhereItIs) {
  const std::string text = "PeerError: rank 1: check failed";
  EXPECT_EQ(errors(1, [] { throw InternalError("check failed"); }),
            (Texts{text, "InternalError: check failed", text}));
  const std::string memory = "PeerError: rank 1: std::bad_alloc";
  EXPECT_EQ(errors(1, [] { throw std::bad_alloc(); }), (Texts{memory, "exception: std::bad_alloc", memory}));
}

TEST(FailedRank, NoneFails) {
  EXPECT_EQ(errors(1, [] {}), (Texts{"", "", ""}));
}

}  // namespace
}  // namespace lockstep
