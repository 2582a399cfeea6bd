// Errors of the CUDA device on their words, with no driver and with a driver that fails as asked.
#include <cstring>

#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/inventory.h"
#include "tests/support/own_process.h"

namespace lockstep {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

Environment fake(const std::string& what, const std::string& library = LOCKSTEP_FAKE_CUDA) {
  return {{"LOCKSTEP_CUDA_DRIVER", library}, {"FAKE_CUDA", what}, {"CUDA_VISIBLE_DEVICES", "4,5"}};
}
std::string open_first() { return cuda::open_device(0)->describe(); }

TEST(cuda_errors, no_driver) {
  const Environment absent = {{"LOCKSTEP_CUDA_DRIVER", "/no/such/libcuda.so.1"}};
  const std::string opening = in_own_process(absent, open_first);
  expect_words(opening, {"UserError: no CUDA driver", "/no/such/libcuda.so.1", "LOCKSTEP_CUDA_DRIVER",
                         "train.device \"cpu\""});
  const std::string asking = in_own_process(absent, [] {
    std::string why;
    const bool there = cuda::available(&why);
    return str(there, " ", cuda::device_count(), " ", why);
  });
  expect_words(asking, {"0 0 no CUDA driver: /no/such/libcuda.so.1: cannot open shared object file"});
}

TEST(cuda_errors, driver_without_an_entry_point) {
  const std::string text = in_own_process(fake("version=11020", LOCKSTEP_FAKE_CUDA_OLD), open_first);
  expect_words(text, {"UserError", "(version 11.2) lacks cuGraphLaunch",
                      "needs a driver of version 11.4 or newer", "update the NVIDIA driver"});
}

TEST(cuda_errors, driver_that_does_not_start) {
  expect_words(in_own_process(fake("init=999"), open_first),
               {"UserError", "(version 12.4) does not start: CUDA_ERROR_FAKE (999)", "nvidia-smi"});
}

TEST(cuda_errors, no_device) {
  for (const char* how : {"devices=0", "init=100"}) {
    expect_words(in_own_process(fake(how), open_first),
                 {"UserError", "finds no device", "CUDA_VISIBLE_DEVICES is \"4,5\"", "train.device \"cpu\""});
    EXPECT_EQ(in_own_process(fake(how), [] { return str(cuda::available(), cuda::device_count()); }), "00");
  }
}

TEST(cuda_errors, no_such_device) {
  for (int ordinal : {2, -1}) {
    const std::string text =
        in_own_process(fake("devices=2"), [=] { return cuda::open_device(ordinal)->describe(); });
    expect_words(text, {"UserError", str("there is no GPU ", ordinal), "sees 2 GPUs, numbers 0 to 1",
                        "CUDA_VISIBLE_DEVICES is \"4,5\"", "at most 2 ranks"});
  }
}

TEST(cuda_errors, an_older_device) {
  expect_words(in_own_process(fake("major=7"), open_first),
               {"UserError", "GPU 0 (Fake 7000) has compute capability 7.0", "needs 8.0 or higher", "A100"});
}

TEST(cuda_errors, no_memory_for_a_context) {
  expect_words(in_own_process(fake("context=2"), open_first),
               {"UserError", "GPU 0 (Fake 7000, 1.00 MiB) has no memory left for a context", "nvidia-smi"});
}

TEST(cuda_errors, memory_is_out) {
  const std::string device = in_own_process(fake("memory=3145728"), [] {
    auto gpu = cuda::open_device(0);
    Buffer first(1 << 20, gpu->memory());
    Buffer second(size_t{5} << 20, gpu->memory());
    return std::string("no error");
  });
  expect_words(device,
               {"UserError", "out of memory on GPU 0 (Fake 7000)", "asked for 5.00 MiB (5242880 bytes)",
                "2.00 MiB of 3.00 MiB are free", "smaller micro-batch"});
  const std::string host = in_own_process(fake(""), [] {
    Buffer pinned(size_t{3} << 20, cuda::open_device(0)->staging());
    return std::string("no error");
  });
  expect_words(host, {"UserError", "out of host memory: 3.00 MiB (3145728 bytes) could not be pinned"});
}

TEST(cuda_errors, code_of_another_gpu) {
  for (int result : {209, 200, 222, 218}) {
    const std::string text = in_own_process(fake(str("image=", result)), [] {
      cuda::open_device(0)->load("code");
      return std::string("no error");
    });
    expect_words(text,
                 {"UserError", "(4 bytes) is not for GPU 0 (Fake 7000, compute capability 9.0, driver 12.4)",
                  "GPUs of one kind"});
  }
}

TEST(cuda_errors, results_have_kinds) {
  const std::string lost = in_own_process(fake("query=700"), [] {
    auto stream = cuda::open_device(0)->make_stream();
    try {
      stream->synchronize();
    } catch (...) {
      setenv("FAKE_CUDA", "", 1);
      throw;
    }
    return std::string("no error");
  });
  expect_words(lost,
               {"PeerError: CUDA: work of a stream: CUDA_ERROR_ILLEGAL_ADDRESS (700)", "last checkpoint"});
  const auto kind_of = [](int result) {
    return in_own_process(fake(""), [=] {
      cuda::check(static_cast<CUresult>(result), "a call");
      return std::string("none");
    });
  };
  EXPECT_EQ(kind_of(0), "none");
  expect_words(kind_of(2), {"UserError: CUDA: a call", "the device's memory is full", "smaller micro-batch"});
  expect_words(kind_of(1), {"InternalError: CUDA: a call: CUDA_ERROR_FAKE (1): as the test asked"});
  for (int result : {214, 220, 46, 702, 715, 716, 717, 718, 719, 710, 911, 999})
    expect_words(kind_of(result), {"PeerError: CUDA: a call", "last checkpoint"});
}

TEST(cuda_errors, no_kernel_and_a_stream_of_another_device) {
  expect_words(in_own_process(fake(""),
                              [] {
                                cuda::open_device(0)->load("code")->function("k_absent");
                                return std::string("no error");
                              }),
               {"InternalError", "no kernel k_absent in the module"});
  expect_words(in_own_process(fake(""),
                              [] {
                                auto gpu = cuda::open_device(0);
                                Buffer data(64, gpu->memory());
                                gpu->zero(data.data(), 64, *inline_stream());
                                return std::string("no error");
                              }),
               {"InternalError", "on a stream of another device"});
  expect_words(in_own_process(fake(""),
                              [] {
                                auto stream = cuda::open_device(0)->make_stream();
                                stream->wait(inline_stream()->record());
                                return std::string("no error");
                              }),
               {"InternalError", "can wait only for an event of a CUDA stream"});
}

TEST(cuda_inventory, tells_what_there_is_and_what_not) {
  const auto rows = [](const Environment& environment) {
    return in_own_process(environment, [] {
      std::string out;
      for (const auto& found : cuda::inventory()) out += str(found.what, ": ", found.status, "\n");
      return out;
    });
  };
  const std::string two = rows(fake("devices=2"));
  expect_words(two, {"driver: 12.4\n", "GPU 0: Fake 7000, compute capability 9.0, 1.00 MiB\n", "GPU 1: Fake",
                     "NVRTC: ", "cuBLASLt: ", "cuDNN: ", "NCCL: "});
  expect_words(rows(fake("major=7")), {"capability 7.0, 1.00 MiB (older than 8.0: not used)"});
  expect_words(rows(fake("devices=0")), {"driver: 12.4, no device: "});
  const std::string nothing =
      rows({{"LOCKSTEP_CUDA_DRIVER", "/no/such/libcuda.so.1"}, {"LOCKSTEP_NVRTC", "/no/such/libnvrtc.so"}});
  expect_words(nothing,
               {"driver: none: no CUDA driver: /no/such/libcuda.so.1", "NVRTC: none: /no/such/libnvrtc.so"});
  EXPECT_EQ(nothing.find("GPU 0"), std::string::npos);
}

// The device's own part, on a driver whose memory is the host's.
TEST(cuda_device, works_on_a_fake_driver) {
  const std::string text = in_own_process(fake("memory=10485760"), [] {
    auto gpu = cuda::open_device(0);
    LS_CHECK(gpu == cuda::open_device(0), "opened twice");
    LS_CHECK(gpu->target() == "sm_90" && gpu->kind() == "cuda" && !gpu->addressable());
    LS_CHECK(gpu->memory_info().total == 10485760);
    Buffer a(1000, gpu->memory()), b(1000, gpu->staging()), empty(0, gpu->memory());
    LS_CHECK(empty.data() && reinterpret_cast<uintptr_t>(a.data()) % 256 == 0);
    for (size_t i = 0; i < 1000; ++i) LS_CHECK(a.as<char>()[i] == 0 && b.as<char>()[i] == 0);
    std::memset(b.data(), 7, 1000);
    copy_to_device(*gpu, a.data(), b.data(), 1000);
    auto stream = gpu->make_stream();
    gpu->zero(a.data() + 500, 500, *stream);
    std::vector<char> back(1000, 1);
    copy_to_host(*gpu, back.data(), a.data(), 1000);
    for (size_t i = 0; i < 1000; ++i) LS_CHECK(back[i] == (i < 500 ? 7 : 0), i);
    // Host work after a failed item does not run; the failure is told once by the stream, and by every event
    // after it.
    int ran = 0;
    stream->run([&] { ++ran; });
    stream->run([] { throw UserError("from host work"); });
    stream->run([&] { ++ran; });
    auto event = stream->record();
    for (int ask = 0; ask < 2; ++ask) {
      bool thrown = false;
      try {
        ask ? event->synchronize() : static_cast<void>(event->done());
      } catch (const UserError& error) { thrown = std::string(error.what()) == "from host work"; }
      LS_CHECK(thrown, ask);
    }
    try {
      stream->synchronize();
      LS_CHECK(false, "no error");
    } catch (const UserError& error) { LS_CHECK(std::string(error.what()) == "from host work"); }
    stream->synchronize();
    stream->run([&] { ++ran; });
    stream->wait(stream->record());
    stream->synchronize();
    return str("ran ", ran, ", ", gpu->describe());
  });
  EXPECT_EQ(text, "ran 2, Fake 7000, compute capability 9.0, 4 multiprocessors, driver 12.4");
}

}  // namespace
}  // namespace lockstep
