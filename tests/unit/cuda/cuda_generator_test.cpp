// The text of generated CUDA kernels, fixed by a hash: a kernel's name hashes its body alone, so that a
// certificate knows the generator by its version.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/loops/kernels.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/ir/parse.h"

namespace lockstep {
namespace {

const char* const kPointwise = R"(graph [] {
  in value "x0" %0 bf16[3,1000]
  in value "x1" %1 f32[1000]
  %2 f32[3,1000] = convert(%0) {dtype=f32}
  %3 f32[3,1000] = broadcast(%1) {shape=[3,1000], dims=[1]}
  %4 f32[3,1000] = mul(%2, %3)
  %5 f32[3,1000] = tanh(%4)
  %6 bf16[3,1000] = convert(%5) {dtype=bf16}
  out value "y0" %6
}
)";
const char* const kRows = R"(graph [] {
  in value "x0" %0 f32[8,32,384]
  %1 f32[8,32] = sum(%0) {dims=[2]}
  %2 f32[8,32] = full() {shape=[8,32], value=384.0, dtype=f32}
  %3 f32[8,32] = div(%1, %2)
  %4 f32[8,32,384] = broadcast(%3) {shape=[8,32,384], dims=[0,1]}
  %5 f32[8,32,384] = sub(%0, %4)
  %6 f32[8,32,384] = mul(%5, %5)
  %7 f32[8,32] = sum(%6) {dims=[2]}
  %8 f32[8,32] = rsqrt(%7)
  %9 f32[8,32,384] = broadcast(%8) {shape=[8,32,384], dims=[0,1]}
  %10 f32[8,32,384] = mul(%5, %9)
  out value "y0" %10
  out value "y1" %8
}
)";
const char* const kColumns = R"(graph [] {
  in value "x0" %0 f32[4096,77]
  in value "x1" %1 f32[4096,77]
  %2 f32[4096,77] = mul(%0, %1)
  %3 f32[77] = sum(%2) {dims=[0]}
  out value "y0" %3
}
)";
const char* const kTensors = R"(graph [] {
  in value "p" %0 f32[5]
  in value "g" %1 f32[5]
  in scalar "lr" %2 f32[]
  %3 f32[5] = broadcast(%2) {shape=[5], dims=[]}
  %4 f32[5] = mul(%1, %3)
  %5 f32[5] = sub(%0, %4)
  out value "p" %5
}
)";

TEST(CudaGenerator, NoTextChangesWithoutAnotherVersion) {
  std::string texts;
  for (const char* body : {kPointwise, kRows, kColumns}) {
    compiler::KernelSource source = compiler::cuda::generate_kernel(parse_graph(body));
    texts += source.text + source.launch;
  }
  compiler::KernelSource many = compiler::cuda::generate_multi_tensor(parse_graph(kTensors));
  texts += many.text + many.launch;
  EXPECT_EQ(str(compiler::cuda::kGeneratorVersion, " ", hash_hex(texts)),
            "5 907699f581ea68c7fa59b3320247f9fd")
      << "generated text is another: raise kGeneratorVersion in compiler/codegen/cuda/loops/kernels.h, and "
         "write "
         "the new hash here";
}

TEST(CudaGenerator, TheVersionNamesTheFixedTexts) {
  const std::string version = compiler::cuda::generator_version();
  EXPECT_EQ(version.substr(0, version.find('.')), str(compiler::cuda::kGeneratorVersion));
  EXPECT_EQ(version.size(), version.find('.') + 1 + 16);
}

}  // namespace
}  // namespace lockstep
