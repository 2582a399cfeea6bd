// The CUDA device on hardware: memory, copies, order, host work, graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <thread>

#include "compiler/codegen/cuda/source/nvrtc.h"
#include "core/base/error.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep {
namespace {

constexpr const char* kSource = R"(
extern "C" __global__ void add(int* x, int n, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += by;
}
extern "C" __global__ void set_later(int* x, int value, long long cycles) {
  long long start = clock64();
  while (clock64() - start < cycles) {}
  *x = value;
}
extern "C" __global__ void multiply_add(float* out, const float* a, const float* b, const float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] * b[i] + c[i];
}
extern "C" __global__ void reverse(int* x, int n) {
  extern __shared__ int s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = s[n - 1 - i];
}
)";

std::shared_ptr<const cuda::Module> load_kernels(const cuda::CudaDevice& gpu) {
  return gpu.load(compiler::cuda::compile_cubin(kSource, gpu.target()));
}

std::vector<unsigned char> random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<unsigned char> out(count);
  for (auto& byte : out) byte = static_cast<unsigned char>(random());
  return out;
}

class device : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!cuda::available(&why) || !compiler::cuda::nvrtc_available(&why)) GTEST_SKIP() << why;
    gpu_ = cuda::open_device(0);
    gpu_->enter();
  }
  CUfunction kernel(const std::string& name) {
    if (!module_) module_ = load_kernels(*gpu_);
    return module_->function(name);
  }
  void add(Stream& stream, const Buffer& to, int count, int by) {
    int* data = to.as<int>();
    void* args[] = {&data, &count, &by};
    cuda::launch(kernel("add"), static_cast<unsigned>((count + 255) / 256), 1, 1, 256, 0, stream, args,
                 "add");
  }
  void set_later(Stream& stream, const Buffer& to, int value, long long cycles = 100'000'000) {
    int* data = to.as<int>();
    void* args[] = {&data, &value, &cycles};
    cuda::launch(kernel("set_later"), 1, 1, 1, 1, 0, stream, args, "set_later");
  }
  std::vector<int> read(const Buffer& from, size_t count) {
    std::vector<int> out(count, -77);
    copy_to_host(*gpu_, out.data(), from.data(), count * sizeof(int));
    return out;
  }

  std::shared_ptr<cuda::CudaDevice> gpu_;
  std::shared_ptr<const cuda::Module> module_;
};

TEST_F(device, says_what_it_is) {
  const auto& p = gpu_->properties();
  std::printf("%s; target %s, %d bytes shared per block, L2 %d, memory %lld, NVRTC %s\n",
              gpu_->describe().c_str(), gpu_->target().c_str(), p.shared_per_block, p.l2_bytes,
              static_cast<long long>(p.memory), compiler::cuda::nvrtc_version().c_str());
  EXPECT_EQ(gpu_->kind(), "cuda");
  EXPECT_FALSE(gpu_->addressable());
  EXPECT_EQ(gpu_, cuda::open_device(0));
  EXPECT_GT(p.multiprocessors, 0);
  EXPECT_GE(p.shared_per_block, 48 << 10);
  const DeviceMemory memory = gpu_->memory_info();
  EXPECT_GT(memory.free, 0);
  EXPECT_LE(memory.free, memory.total);
  EXPECT_THROW(cuda::open_device(cuda::device_count()), UserError);
}

TEST_F(device, memory_is_aligned_and_zeroed) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{255}, size_t{4096}, size_t{(1 << 20) + 1}}) {
    for (int again = 0; again < 2;
         ++again) {  // the second time it is likely the memory that was just poisoned
      Buffer data(bytes, gpu_->memory());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data.data()) % 256, 0u);
      std::vector<unsigned char> back(bytes, 1);
      copy_to_host(*gpu_, back.data(), data.data(), bytes);
      EXPECT_EQ(back, std::vector<unsigned char>(bytes, 0)) << bytes;
      const auto poison = random_bytes(bytes, 1);
      copy_to_device(*gpu_, data.data(), poison.data(), bytes);
    }
    Buffer pinned(bytes, gpu_->staging());
    EXPECT_TRUE(
        std::all_of(pinned.as<char>(), pinned.as<char>() + bytes, [](char byte) { return byte == 0; }));
  }
}

TEST_F(device, copies_and_zeroes) {
  auto stream = gpu_->make_stream();
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{3}, size_t{257}, size_t{65537}, size_t{(8 << 20) + 5}}) {
    const auto expected = random_bytes(bytes, static_cast<unsigned>(bytes));
    Buffer in(bytes, gpu_->staging()), first(bytes, gpu_->memory()), second(bytes, gpu_->memory()),
        out(bytes, gpu_->staging());
    std::copy(expected.begin(), expected.end(), in.as<unsigned char>());
    std::fill_n(out.as<unsigned char>(), bytes, 0xaa);
    gpu_->copy(first.data(), in.data(), bytes, *stream);
    gpu_->copy(second.data(), first.data(), bytes, *stream);
    gpu_->copy(out.data(), second.data(), bytes, *stream);
    stream->synchronize();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.as<unsigned char>())) << bytes;
    std::vector<unsigned char> pageable(bytes, 0xbb);
    copy_to_host(*gpu_, pageable.data(), second.data(), bytes);
    EXPECT_EQ(pageable, expected);
    if (bytes < 3) continue;
    gpu_->zero(second.data() + 1, bytes - 2, *stream);  // neither the byte before nor the one after
    gpu_->copy(pageable.data(), second.data(), bytes, *stream);
    stream->synchronize();
    std::vector<unsigned char> zeroed(bytes, 0);
    zeroed.front() = expected.front(), zeroed.back() = expected.back();
    EXPECT_EQ(pageable, zeroed);
  }
}

TEST_F(device, contraction_is_off) {
  const int n = 10007;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> value(-2, 2);
  std::vector<float> host[3];
  Buffer at[3], out(n * 4, gpu_->memory());
  for (int k = 0; k < 3; ++k) {
    for (int i = 0; i < n; ++i) host[k].push_back(value(random));
    at[k] = Buffer(n * 4, gpu_->memory());
    copy_to_device(*gpu_, at[k].data(), host[k].data(), n * 4);
  }
  auto stream = gpu_->make_stream();
  float *to = out.as<float>(), *a = at[0].as<float>(), *b = at[1].as<float>(), *c = at[2].as<float>();
  int count = n;
  void* args[] = {&to, &a, &b, &c, &count};
  cuda::launch(kernel("multiply_add"), (n + 127) / 128, 1, 1, 128, 0, *stream, args, "multiply_add");
  stream->synchronize();
  std::vector<float> back(n, -77);
  copy_to_host(*gpu_, back.data(), out.data(), n * 4);
  for (size_t i = 0; i < back.size(); ++i) {
    const volatile float product = host[0][i] * host[1][i];
    ASSERT_EQ(back[i], product + host[2][i]) << i;
  }
}

TEST_F(device, shared_memory_up_to_the_limit) {
  const int bytes = gpu_->properties().shared_per_block, n = bytes / 4;
  Buffer data(static_cast<size_t>(bytes), gpu_->memory());
  std::vector<int> host(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) host[static_cast<size_t>(i)] = i * 7;
  copy_to_device(*gpu_, data.data(), host.data(), static_cast<size_t>(n) * 4);
  auto stream = gpu_->make_stream();
  cuda::check(cuda::driver().FuncSetAttribute(kernel("reverse"),
                                              CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes),
              "reverse");
  int* x = data.as<int>();
  int count = n;
  void* args[] = {&x, &count};
  cuda::launch(kernel("reverse"), 0, 1, 1, 256, 0, *stream, args, "an empty grid");
  cuda::launch(kernel("reverse"), 1, 1, 1, 256, static_cast<unsigned>(bytes), *stream, args, "reverse");
  stream->synchronize();
  std::reverse(host.begin(), host.end());
  EXPECT_EQ(read(data, host.size()), host);
}

TEST_F(device, streams_are_ordered_by_events) {
  auto first = gpu_->make_stream(), second = gpu_->make_stream();
  Buffer slow(4, gpu_->memory()), copy(4, gpu_->memory());
  kernel("set_later");  // loaded before the clock matters
  for (int round = 1; round <= 3; ++round) {
    set_later(*first, slow, round);
    auto written = first->record();
    EXPECT_FALSE(written->done()) << "the kernel spins for about 50 ms";
    second->wait(written);
    gpu_->copy(copy.data(), slow.data(), 4, *second);
    auto copied = second->record();
    first->wait(copied);
    gpu_->zero(slow.data(), 4, *first);
    copied->synchronize();
    EXPECT_TRUE(written->done());
    EXPECT_TRUE(copied->done());
    first->synchronize();
    EXPECT_EQ(read(copy, 1)[0], round);
    EXPECT_EQ(read(slow, 1)[0], 0);
  }
  // A second stream is not held up by the first.
  set_later(*first, slow, 9);
  gpu_->zero(copy.data(), 4, *second);
  second->synchronize();
  EXPECT_FALSE(first->record()->done());
  first->synchronize();
}

TEST_F(device, host_work_is_in_order_and_its_errors_are_kept) {
  auto stream = gpu_->make_stream();
  Buffer data(4, gpu_->memory()), pinned(4, gpu_->staging());
  int seen = -1, after = 0;
  set_later(*stream, data, 41);
  gpu_->copy(pinned.data(), data.data(), 4, *stream);
  stream->run([&] { seen = *pinned.as<int>(); });
  stream->run([&] { *pinned.as<int>() = seen + 1; });
  gpu_->copy(data.data(), pinned.data(), 4, *stream);
  EXPECT_EQ(seen, -1) << "run blocked";
  stream->synchronize();
  EXPECT_EQ(seen, 41);
  EXPECT_EQ(read(data, 1)[0], 42);
  stream->run([] { throw UserError("host work failed"); });
  stream->run([&] { ++after; });
  auto event = stream->record();
  EXPECT_THROW(event->synchronize(), UserError);
  EXPECT_THROW(stream->synchronize(), UserError);
  EXPECT_EQ(after, 0);
  stream->synchronize();
  stream->run([&] { ++after; });
  stream->synchronize();
  EXPECT_EQ(after, 1);
}

TEST_F(device, captured_work_replays) {
  auto stream = gpu_->make_stream(), side = gpu_->make_stream();
  const int n = 1001;
  Buffer a(n * 4, gpu_->memory()), b(n * 4, gpu_->memory()), pinned(n * 4, gpu_->staging());
  kernel("add");
  auto graph = gpu_->capture(*stream, [&] {
    add(*stream, a, n, 3);
    side->wait(stream->record());  // the fork: side belongs to the capture from here
    add(*side, b, n, 5);
    stream->wait(side->record());
    add(*stream, b, n, 1);
    gpu_->copy(pinned.data(), b.data(), n * 4, *stream);
  });
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->nodes(), 4);
  EXPECT_EQ(read(a, n), std::vector<int>(n, 0)) << "capture ran the work";
  for (int times = 0; times < 10; ++times) graph->launch(*stream);
  stream->synchronize();
  EXPECT_EQ(read(a, n), std::vector<int>(n, 30));
  EXPECT_EQ(read(b, n), std::vector<int>(n, 60));
  EXPECT_EQ(pinned.as<int>()[n - 1], 60);
  // Marks of captured work are of its last launch.
  const size_t large = size_t{1} << 30, small = 4096;
  Buffer data(large, gpu_->memory());
  std::shared_ptr<Mark> begin, middle, end;
  auto marked = gpu_->capture(*stream, [&] {
    begin = stream->mark();
    gpu_->zero(data.data(), large, *stream);
    middle = stream->mark();
    gpu_->zero(data.data(), small, *stream);
    end = stream->mark();
  });
  for (int times = 0; times < 3; ++times) {
    marked->launch(*stream);
    stream->synchronize();
    EXPECT_GT(middle->seconds_after(*begin), 1e-4);
    EXPECT_LT(middle->seconds_after(*begin), 1e-2);
    EXPECT_LT(end->seconds_after(*middle), middle->seconds_after(*begin));
  }
  auto now = stream->mark();
  stream->synchronize();
  EXPECT_GE(now->seconds_after(*end), 0);
  graph->launch(*side);  // on another stream than the captured one
  side->synchronize();
  EXPECT_EQ(read(b, n), std::vector<int>(n, 66));
  graph.reset();
  add(*stream, a, n, 1);
  stream->synchronize();
  EXPECT_EQ(read(a, n), std::vector<int>(n, 34));
}

// As moments on the host are updated: they come in one queue and go back in another, in each launch anew.
TEST_F(device, captured_copies_from_and_to_the_host_replay) {
  auto stream = gpu_->make_stream(), in = gpu_->make_stream(), out = gpu_->make_stream();
  const int n = 1 << 20;
  const size_t bytes = n * sizeof(int);
  Buffer host(2 * bytes, gpu_->staging()), slots(2 * bytes, gpu_->memory());
  kernel("add");
  auto graph = gpu_->capture(*stream, [&] {
    for (int half : {0, 1}) {
      in->wait(stream->record());
      gpu_->copy(slots.data() + half * bytes, host.data() + half * bytes, bytes, *in);
      stream->wait(in->record());
      int* data = slots.as<int>() + half * n;
      int count = n, by = half + 1;
      void* args[] = {&data, &count, &by};
      cuda::launch(kernel("add"), static_cast<unsigned>((n + 255) / 256), 1, 1, 256, 0, *stream, args, "add");
      out->wait(stream->record());
      gpu_->copy(host.data() + half * bytes, slots.data() + half * bytes, bytes, *out);
    }
    stream->wait(out->record());
  });
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->nodes(), 6);
  for (int times = 0; times < 10; ++times) graph->launch(*stream);
  stream->synchronize();
  std::vector<int> expected(2 * n, 10);
  std::fill(expected.begin() + n, expected.end(), 20);
  EXPECT_EQ(std::vector<int>(host.as<int>(), host.as<int>() + 2 * n), expected);
}

TEST_F(device, memory_and_modules_within_a_capture) {
  auto stream = gpu_->make_stream();
  Buffer a(40, gpu_->memory()), made;
  auto graph = gpu_->capture(*stream, [&] {
    made = Buffer(40, gpu_->memory());
    add(*stream, a, 10, 2);  // loads the module
    gpu_->copy(made.data(), a.data(), 40, *stream);
  });
  EXPECT_EQ(graph->nodes(), 2);
  EXPECT_EQ(read(made, 10), std::vector<int>(10, 0));
  graph->launch(*stream);
  stream->synchronize();
  EXPECT_EQ(read(made, 10), std::vector<int>(10, 2));
}

TEST_F(device, a_capture_that_throws_leaves_the_streams_usable) {
  auto stream = gpu_->make_stream(), side = gpu_->make_stream();
  Buffer a(40, gpu_->memory());
  kernel("add");
  for (bool fork : {false, true}) {
    EXPECT_THROW(gpu_->capture(*stream,
                               [&] {
                                 add(*stream, a, 10, 2);
                                 if (fork) {
                                   side->wait(stream->record());
                                   add(*side, a, 10, 2);
                                 }
                                 throw UserError("in the middle");
                               }),
                 UserError);
    stream->synchronize();
    side->synchronize();
    EXPECT_EQ(read(a, 10), std::vector<int>(10, 0));
  }
  EXPECT_THROW(gpu_->capture(*stream,
                             [&] {  // a fork that is never joined
                               side->wait(stream->record());
                               add(*side, a, 10, 2);
                             }),
               InternalError);
  auto graph = gpu_->capture(*stream, [&] { add(*stream, a, 10, 2); });
  graph->launch(*stream);
  add(*side, a, 0, 1);
  stream->synchronize();
  side->synchronize();
  EXPECT_EQ(read(a, 10), std::vector<int>(10, 2));
}

TEST_F(device, host_work_in_a_graph) {
  auto stream = gpu_->make_stream();
  Buffer a(4, gpu_->memory()), pinned(4, gpu_->staging());
  std::vector<int> seen;
  auto graph = gpu_->capture(*stream, [&] {
    add(*stream, a, 1, 1);
    gpu_->copy(pinned.data(), a.data(), 4, *stream);
    stream->run([&] {
      seen.push_back(*pinned.as<int>());
      if (seen.size() == 3) throw UserError("third");
    });
  });
  EXPECT_EQ(graph->nodes(), 3);
  for (int i = 0; i < 4; ++i) graph->launch(*stream);
  EXPECT_THROW(stream->synchronize(), UserError);
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
  graph->launch(*stream);
  stream->synchronize();
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 5}));
  graph->launch(*stream);
  graph.reset();  // waits for its host work
  EXPECT_EQ(seen.back(), 6);
}

TEST_F(device, threads_share_it) {
  std::vector<std::thread> threads;
  std::vector<int> results(4, -1);
  kernel("add");
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      gpu_->enter();
      auto stream = gpu_->make_stream();
      Buffer data(4, gpu_->memory());
      for (int i = 0; i < 100; ++i) add(*stream, data, 1, t + 1);
      stream->synchronize();
      results[static_cast<size_t>(t)] = read(data, 1)[0];
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(results, (std::vector<int>{100, 200, 300, 400}));
}

TEST_F(device, a_full_memory_is_told_with_sizes) {
  const size_t asked = static_cast<size_t>(gpu_->memory_info().total) + (size_t{1} << 30);
  try {
    Buffer too_much(asked, gpu_->memory());
    FAIL() << "no error";
  } catch (const UserError& error) {
    const std::string text = error.what();
    for (const std::string& word :
         {str("out of memory on GPU 0 (", gpu_->properties().name), str("(", asked, " bytes)"),
          std::string("are free"), std::string("smaller micro-batch")})
      EXPECT_NE(text.find(word), std::string::npos) << word << " is missing in: " << text;
  }
  Buffer fits(1 << 20, gpu_->memory());  // and the device goes on
  EXPECT_EQ(read(fits, 1)[0], 0);
}

TEST_F(device, code_of_another_gpu_and_kernels_that_are_absent) {
  EXPECT_THROW(kernel("absent"), InternalError);
  if (gpu_->properties().major == 8) GTEST_SKIP() << "sm_80 code runs here";
  try {
    gpu_->load(compiler::cuda::compile_cubin(kSource, "sm_80"));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("GPUs of one kind"), std::string::npos) << error.what();
  }
  EXPECT_THROW(gpu_->load("this is no machine code, but long enough to be read as a header of some kind "
                          "...................."),
               UserError);
}

}  // namespace
}  // namespace lockstep
