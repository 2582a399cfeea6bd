// What the tests of CUDA library calls share: a device or a skip, arrays with random or poisoned contents,
// calls run twice.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compiler/codegen/library/library.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep::cuda {

class LibraryCase : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!available(&why)) GTEST_SKIP() << "no CUDA device: " << why;
    device_ = open_device(0);
    device_->enter();
    stream_ = device_->make_stream();
  }

  // Host contents beside the device's.
  struct Array {
    DType dtype = DType::f32;
    Buffer host, device;
    int64_t size() const { return static_cast<int64_t>(host.bytes() / size_of(dtype)); }
    double at(int64_t i) const { return get_double(dtype, host.data(), i); }
  };
  Array poisoned(DType dtype, int64_t count) {  // every byte 0xff: NaN, -1
    auto bytes = static_cast<size_t>(count) * size_of(dtype);
    Array out{dtype, Buffer(bytes), Buffer(std::max<size_t>(bytes, 16), device_->memory())};
    std::memset(out.host.data(), 0xff, out.host.bytes());
    upload(out);
    return out;
  }
  Array random(DType dtype, int64_t count, double scale = 1) {
    Array out = poisoned(dtype, count);
    std::uniform_real_distribution<double> draw(-scale, scale);
    for (int64_t i = 0; i < count; ++i) {
      if (is_float(dtype)) {
        set_double(dtype, out.host.data(), i, draw(engine_));
      } else {
        set_int(dtype, out.host.data(), i,
                static_cast<int64_t>(engine_() | (static_cast<uint64_t>(engine_()) << 32)));
      }
    }
    upload(out);
    return out;
  }
  void upload(Array& array) {
    if (array.host.bytes())
      copy_to_device(*device_, array.device.data(), array.host.data(), array.host.bytes());
  }
  void download(Array& array) {
    if (array.host.bytes())
      copy_to_host(*device_, array.host.data(), array.device.data(), array.host.bytes());
  }
  static bool same_bits(const Array& a, const Array& b) {
    return a.host.bytes() == b.host.bytes() &&
           (a.host.bytes() == 0 || std::memcmp(a.host.data(), b.host.data(), a.host.bytes()) == 0);
  }

  // Runs the call twice, plainly and as captured work, over poisoned outputs and workspace; the bits are
  // equal. Gives the output.
  Array run(const compiler::LibraryCall& call, const std::vector<const Array*>& in, DType dtype,
            int64_t count) {
    std::vector<Array> out;
    for (int pass = 0; pass < 2; ++pass) {
      out.push_back(poisoned(dtype, count));
      Array workspace = poisoned(DType::u8, static_cast<int64_t>(call.workspace(1)));
      std::vector<void*> args;
      for (const Array* array : in) args.push_back(array->device.data());
      args.push_back(out.back().device.data());
      auto enqueue = [&] { call.enqueue(args.data(), workspace.device.data(), *stream_, 1); };
      std::unique_ptr<CapturedWork> captured;
      if (pass == 1 && count) captured = device_->capture(*stream_, enqueue);
      if (captured) {
        captured->launch(*stream_);
      } else {
        enqueue();
      }
      stream_->synchronize();
      download(out.back());
    }
    EXPECT_TRUE(same_bits(out[0], out[1])) << "two runs differ: " << call.algorithm();
    return out[0];
  }

  std::shared_ptr<CudaDevice> device_;
  std::unique_ptr<Stream> stream_;
  std::mt19937 engine_{20240229};
};

}  // namespace lockstep::cuda
