// The kernel cache: cold, warm, damaged, written by many at once, read-only; and machine code as bytes for
// other ranks.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "compiler/codegen/cache/kernel_cache.h"
#include "tests/support/own_process.h"
#include "tests/unit/compiler/kernel_case.h"

namespace lockstep {

using namespace compiler;

namespace {

Graph doubled(int64_t n) {
  Graph body;
  body.mesh = Mesh{{}, {}};
  ValueId x = body.add_input(InputKind::value, "x", DType::f32, {n});
  body.add_output(OutputKind::value, "y", body.append("add", {x, x}, {}, {{DType::f32, {n}}})[0]);
  return body;
}
void expect_doubles(const KernelLibrary& library, const Graph& body) {
  HostTensor x = random_tensor(DType::f32, body[body.inputs[0].value].shape, 1);
  HostTensor y = run_kernel(library, generate_kernel(body).name, body, {x})[0];
  for (int64_t i = 0; i < x.size(); ++i) ASSERT_EQ(y.at(i), 2 * x.at(i));
}
// The entries of kernels; the folder also holds its key and the compiler's version.
std::vector<std::filesystem::path> files_in(const std::string& folder) {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".kernels") out.push_back(entry.path());
  return out;
}
// An environment variable for one scope.
class WithEnv {
 public:
  WithEnv(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    setenv(name, value.c_str(), 1);
  }
  ~WithEnv() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};
std::string user_error(const std::function<void()>& run) {
  try {
    run();
  } catch (const UserError& error) { return error.what(); }
  ADD_FAILURE() << "no UserError";
  return "";
}

TEST(kernel_cache, cold_warm_and_damaged) {
  ScratchFolder folder;
  const std::string dir = folder.path("kernels");
  Graph body = doubled(37);
  auto compile = [&] { return compile_kernels({generate_kernel(body)}, {.cache_dir = dir}); };
  KernelLibrary cold = compile();
  EXPECT_FALSE(cold.from_cache());
  expect_doubles(cold, body);
  KernelLibrary warm = compile();
  EXPECT_TRUE(warm.from_cache());
  EXPECT_EQ(warm.hash(), cold.hash());
  expect_doubles(warm, body);
  auto files = files_in(dir);
  ASSERT_EQ(files.size(), 1u);
  const auto size = std::filesystem::file_size(files[0]);
  for (uintmax_t at : {uintmax_t{0}, size / 2, size - 1}) {  // one flipped byte anywhere
    std::fstream file(files[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    char byte = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 0x10));
    file.close();
    KernelLibrary again = compile();
    EXPECT_FALSE(again.from_cache()) << at;
    expect_doubles(again, body);
  }
  for (uintmax_t length : {uintmax_t{0}, uintmax_t{10}, size - 8}) {  // cut short
    std::filesystem::resize_file(files[0], length);
    KernelLibrary again = compile();
    EXPECT_FALSE(again.from_cache()) << length;
    expect_doubles(again, body);
  }
  EXPECT_TRUE(compile().from_cache());
}

TEST(kernel_cache, takes_many_writers_at_once) {
  ScratchFolder folder;
  Graph body = doubled(50);
  std::vector<std::thread> threads;
  std::vector<KernelLibrary> made(4);
  for (size_t i = 0; i < made.size(); ++i)
    threads.emplace_back(
        [&, i] { made[i] = compile_kernels({generate_kernel(body)}, {.cache_dir = folder.path("k")}); });
  for (auto& thread : threads) thread.join();
  for (const auto& library : made) expect_doubles(library, body);
  EXPECT_EQ(files_in(folder.path("k")).size(), 1u);
}

TEST(kernel_cache, works_without_a_folder_to_write_to) {
  ScratchFolder folder;
  std::string file = folder.write("file", std::string("not a folder"));
  Graph body = doubled(51);
  expect_doubles(compile_kernels({generate_kernel(body)}, {.cache_dir = file + "/kernels"}), body);
  if (geteuid() != 0) {
    chmod(folder.path("").c_str(), 0500);
    expect_doubles(compile_kernels({generate_kernel(body)}, {.cache_dir = folder.path("kernels")}), body);
    chmod(folder.path("").c_str(), 0700);
  }
}

TEST(kernel_cache, needs_no_compiler_for_what_it_holds) {
  ScratchFolder folder;
  std::filesystem::create_directories(folder.path("bin"));
  std::filesystem::create_symlink("/usr/bin/g++", folder.path("bin/kernel-compiler"));
  const std::string path = std::getenv("PATH");
  WithEnv compiler("LOCKSTEP_CXX",
                   "kernel-compiler-of-this-test");  // a name that no other test asks the version of
  std::filesystem::rename(folder.path("bin/kernel-compiler"),
                          folder.path("bin/kernel-compiler-of-this-test"));
  Graph body = doubled(54), other = doubled(55);
  auto in_a_process = [&](const std::string& search, const Graph& graph) {
    return in_own_process({{"PATH", search}}, [&] {
      KernelLibrary made = compile_kernels({generate_kernel(graph)}, {.cache_dir = folder.path("k")});
      return str(made.from_cache() ? "cached " : "compiled ", made.hash());
    });
  };
  const std::string cold = in_a_process(folder.path("bin") + ":" + path, body),
                    warm = in_a_process(path, body);
  ASSERT_EQ(cold.substr(0, 9), "compiled ") << cold;
  EXPECT_EQ(warm, "cached " + cold.substr(9));
  expect_words(in_a_process(path, other),
               {"UserError: the compiler of kernels, \"kernel-compiler-of-this-test\", does not run: No such "
                "file or directory",
                "install g++", "filled by \"", "lacks kernels of this step"});
  std::filesystem::remove_all(folder.path("k"));  // without a note of the version, nothing can be named
  expect_words(in_a_process(path, body), {"UserError: the compiler of kernels", "does not run"});
}

TEST(kernel_library, travels_as_bytes) {
  ScratchFolder folder;
  Graph body = doubled(52);
  KernelLibrary library = compile_kernels({generate_kernel(body)}, {.cache_dir = folder.path("k")});
  KernelLibrary other = KernelLibrary::from_binary(library.binary());
  EXPECT_EQ(other.hash(), library.hash());
  expect_doubles(other, body);
  std::string damaged = library.binary();
  damaged[damaged.size() / 3] ^= 1;
  EXPECT_THROW(KernelLibrary::from_binary(damaged), InternalError);
  EXPECT_THROW(library.find("k_absent"), InternalError);
  std::string text = user_error([] { KernelLibrary::from_binary(cpu::seal("code", "sve")); });
  EXPECT_NE(text.find("were compiled for \"sve\", which this machine lacks"), std::string::npos) << text;
}

// Descriptors of memory files that hold kernels.
std::set<std::string> memory_files() {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own is
    if (std::filesystem::read_symlink(entry.path(), gone).string().find("memfd:lockstep-kernels") !=
        std::string::npos)
      out.insert(entry.path());
  }
  return out;
}

// A profiler or a preloaded library can keep what is loaded; the loader takes one path for one library.
TEST(kernel_library, one_that_something_keeps_loaded_is_not_taken_for_a_later_one) {
  const Graph body = doubled(61), later = doubled(67);
  const auto before = memory_files();
  {
    const KernelLibrary kept = compile_kernels({generate_kernel(body)});
    std::vector<std::string> opened;
    std::ranges::set_difference(memory_files(), before, std::back_inserter(opened));
    ASSERT_EQ(opened.size(), 1u);
    ASSERT_TRUE(dlopen(opened[0].c_str(), RTLD_NOW | RTLD_NOLOAD));  // and never closed
  }
  expect_doubles(compile_kernels({generate_kernel(later)}), later);
  EXPECT_EQ(memory_files().size(), before.size() + 1) << "the file of the one that is kept";
}

TEST(kernel_library, says_what_is_wrong_with_the_compiler) {
  ScratchFolder folder;
  Graph body = doubled(53);
  {
    WithEnv env("LOCKSTEP_CXX", folder.path("no-such-compiler"));
    std::string text =
        user_error([&] { compile_kernels({generate_kernel(body)}, {.cache_dir = folder.path("k")}); });
    EXPECT_NE(text.find("does not run"), std::string::npos) << text;
    EXPECT_NE(text.find("LOCKSTEP_CXX"), std::string::npos) << text;
  }
  {
    std::string script =
        folder.write("broken", std::string("#!/bin/sh\n[ \"$1\" = --version ] && echo broken 1.0 && exit "
                                           "0\necho first line of trouble\nexit 3\n"));
    chmod(script.c_str(), 0700);
    WithEnv env("LOCKSTEP_CXX", script);
    std::string text =
        user_error([&] { compile_kernels({generate_kernel(body)}, {.cache_dir = folder.path("k")}); });
    EXPECT_NE(text.find("failed with status 3"), std::string::npos) << text;
    EXPECT_NE(text.find("first line of trouble"), std::string::npos) << text;
  }
  WithEnv env("LOCKSTEP_ISA", "avx1024");
  std::string text =
      user_error([&] { compile_kernels({generate_kernel(body)}, {.cache_dir = folder.path("k")}); });
  EXPECT_NE(text.find("unknown instruction set \"avx1024\""), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
