// Lockstep from outside its tree: cmake --install and find_package, and add_subdirectory.
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Outside : public RealRun {
 protected:
  // Runs a program to its end; its output where it fails.
  void call(const std::vector<std::string>& words) {
    std::vector<std::string> argv{"/usr/bin/env"};
    argv.insert(argv.end(), words.begin(), words.end());
    Process process(argv, scratch_.path("out"));
    ASSERT_EQ(process.wait(300), 0) << join(words, " ") << "\n" << process.output();
    output_ = process.output();
  }
  // A project of somebody else, with a program that trains two steps of a model of its own.
  void write_project(const std::string& how) {
    std::filesystem::create_directories("theirs");
    scratch_.write("theirs/CMakeLists.txt",
                   str("cmake_minimum_required(VERSION 3.25)\nproject(theirs LANGUAGES C CXX)\n", how,
                       "\nadd_executable(theirs theirs.cpp)\ntarget_link_libraries(theirs PRIVATE "
                       "Lockstep::lockstep)\n"));
    scratch_.write("theirs/theirs.cpp", std::string(R"(#include <lockstep.h>
#include <cstdio>
using namespace lockstep;
int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), 1);
  Embedding token(state.root() / "token", 16, 8);
  Parameter scale = state.root().parameter("scale", {1}, init::ones());
  AdamW adamw(state / "optim", {});
  Step step = compile(state, {{"ids", DType::i32, {2, 4}}, {"next", DType::i32, {2, 4}}}, {4, 2, 0}, [&](const std::vector<Tensor>& batch) {
    Tensor x = token(batch[0]);
    Tensor s = scale(x);
    Loss loss = cross_entropy(token.logits(x) * s, batch[1]);
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, CompileOptions{});
  state.materialize();
  for (int64_t i = 1; i <= 2; ++i) {
    auto result = step.run({i, [](int64_t first, int64_t count, const std::vector<void*>& fields) {
                              for (int64_t k = 0; k < count * 4; ++k)
                                for (int f = 0; f < 2; ++f) static_cast<int32_t*>(fields[f])[k] = static_cast<int32_t>((first * 4 + k + f) % 16);
                            }});
    if (session.rank() == 0) std::printf("loss %.9g\n", result.metrics.at("loss"));
  }
}
)"));
  }
  std::string output_;
};

TEST_F(Outside, InstalledAndFoundAsAPackage) {
  ASSERT_NO_FATAL_FAILURE(call({"cmake", "--install", BUILD, "--prefix", scratch_.path("there")}));
  EXPECT_TRUE(std::filesystem::exists("there/bin/trainrun"));
  EXPECT_TRUE(std::filesystem::exists("there/include/lockstep/lockstep.h"));
  for (const char* file : {"share/man/man1/trainrun.1", "share/bash-completion/completions/trainrun",
                           "share/lockstep/lockstep.schema.json", "share/lockstep/configs/quickstart.json",
                           "share/lockstep/examples/mlp.cpp", "lib/pkgconfig/lockstep.pc",
                           "share/doc/lockstep/LICENSE", "share/doc/lockstep/NOTICE"})
    EXPECT_TRUE(std::filesystem::exists(str("there/", file))) << file;
  write_project("find_package(Lockstep REQUIRED)");
  ASSERT_NO_FATAL_FAILURE(call({"cmake", "-S", "theirs", "-B", "made", "-G", "Ninja", C_COMPILER,
                                CXX_COMPILER, "-DCMAKE_PREFIX_PATH=" + scratch_.path("there")}));
  ASSERT_NO_FATAL_FAILURE(call({"cmake", "--build", "made"}));
  const std::string cache = str("LOCKSTEP_CACHE=", KERNEL_CACHE),
                    trainrun = scratch_.path("there/bin/trainrun");
  ASSERT_NO_FATAL_FAILURE(call({cache, scratch_.path("made/theirs"), "--train.device=cpu"}));
  const std::string alone = output_;
  EXPECT_HAS(alone, "loss ");
  ASSERT_NO_FATAL_FAILURE(
      call({cache, trainrun, "--nproc", "2", scratch_.path("made/theirs"), "--train.device=cpu"}));
  EXPECT_HAS(output_, alone);  // the same bits on two ranks
}

// Makefiles and other builds: one line with pkg-config. The program is that of docs/cpp.md, as it is there.
TEST_F(Outside, FoundByPkgConfig) {
  if (std::system("pkg-config --version >out 2>&1") != 0) GTEST_SKIP() << "there is no pkg-config";
  ASSERT_NO_FATAL_FAILURE(call({"cmake", "--install", BUILD, "--prefix", scratch_.path("there")}));
  const std::string page = file_text(str(LOCKSTEP_SOURCE_DIR, "/docs/cpp.md")), fence = "```cpp\n";
  const size_t begin = page.find(fence) + fence.size();
  const std::string block = page.substr(begin, page.find("```\n", begin) - begin);
  const size_t body = block.find("\n\n");  // behind what it includes and uses
  ASSERT_EQ(block.rfind("#include <lockstep.h>\n", 0), 0u) << block;
  scratch_.write("own.cpp", str(block.substr(0, body), "\nint main(int argc, char** argv) {\n",
                                block.substr(body), "}\n"));
  std::string tokens;  // of two bytes each
  for (int i = 0; i < 20000; ++i) tokens += {static_cast<char>(i * i % 251), '\0'};
  scratch_.write("tokens.bin", tokens);
  const std::string found = str("PKG_CONFIG_PATH=", scratch_.path("there/lib/pkgconfig"));
  ASSERT_NO_FATAL_FAILURE(call({found, "sh", "-c",
                                "c++ -O1 own.cpp -o own $(pkg-config --cflags lockstep mpi-cxx) "
                                "$(pkg-config --libs lockstep mpi-cxx)"}));
  const std::string cache = str("LOCKSTEP_CACHE=", KERNEL_CACHE);
  ASSERT_NO_FATAL_FAILURE(call({cache, scratch_.path("own"), "--train.device=cpu"}));
  EXPECT_HAS(output_, "step 100");
  EXPECT_TRUE(std::filesystem::exists("runs/own/ckpt/step-100"));
}

// The image has what trainrun is linked to: Debian's packages of its libraries, but for those that come with
// g++ (its runtime) and with spdlog (fmt).
TEST_F(Outside, TheImageHasEachLibraryOfTrainrun) {
  if (std::system("(. /etc/os-release && test \"$VERSION_CODENAME\" = bookworm && "
                  "dpkg-query -S '*-linux-gnu/libc.so.6') >out 2>&1") != 0)
    GTEST_SKIP() << "this is not a Debian 12 whose dpkg knows which package a file is of";
  ASSERT_NO_FATAL_FAILURE(call(
      {"sh", "-c",
       str("for name in $(readelf -d ", BUILD,
           "/bin/trainrun | sed -n 's/.*NEEDED.*\\[\\(.*\\)\\]/\\1/p'); do dpkg -S \"*-linux-gnu/$name\"; "
           "done | cut -d: -f1 | sort -u")}));
  std::ifstream file(str(LOCKSTEP_SOURCE_DIR, "/Containerfile"));
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  const std::set<std::string> along{"libc6", "libgcc-s1", "libstdc++6", "libfmt9"};
  std::istringstream packages(output_);
  int found = 0;
  for (std::string package; packages >> package;)
    if (!along.contains(package)) {
      EXPECT_HAS(image, " " + package + " ");
      ++found;
    }
  EXPECT_GE(found, 10) << output_;
}

TEST_F(Outside, ASubdirectoryOfAnotherProject) {
  write_project(str("add_subdirectory(", LOCKSTEP_SOURCE_DIR, " lockstep)"));
  ASSERT_NO_FATAL_FAILURE(
      call({"cmake", "-S", "theirs", "-B", "made", "-G", "Ninja", C_COMPILER, CXX_COMPILER}));
  ASSERT_NO_FATAL_FAILURE(call({"cmake", "--build", "made", "--target", "core_types"}));
  EXPECT_FALSE(std::filesystem::exists("made/lockstep/tests"));  // a part of another project brings no tests
}

}  // namespace
}  // namespace lockstep::tests
