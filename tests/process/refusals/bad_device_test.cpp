// Devices that are not there, through the real trainrun: no driver, no GPU, too few, too old, or one that is
// named and absent.
#include "checkpoint/format/manifest.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

using Words = std::vector<std::string>;

class BadDevice : public RealRun {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    write_tiny();
  }
  // One error that says `part`, said once, and exit code 2.
  void refused(int nproc, Words more, Variables variables, const std::string& part) {
    Words words = {"--nproc", str(nproc), "c.json"};
    words.insert(words.end(), more.begin(), more.end());
    auto result = trainrun(words, std::move(variables));
    std::string command = join(words, " ");
    EXPECT_EQ(result.code, kExitUser) << command << "\n" << result.output;
    EXPECT_EQ(occurrences(result.output, part), 1) << command << "\nexpected once: " << part << "\nin:\n"
                                                   << result.output;
    EXPECT_EQ(occurrences(result.output, "UserError"), 1) << command << "\n" << result.output;
    for (const char* word : {"InternalError", "PeerError", "terminate called", "MPI_ABORT", "  then "})
      EXPECT_EQ(occurrences(result.output, word), 0) << command << "\n" << result.output;
    EXPECT_EQ(processes_left(), Words{}) << command;
  }
  static Variables none() { return {{"LOCKSTEP_CUDA_DRIVER", "/no/such/libcuda.so.1"}}; }
  static Variables fake(const std::string& what) {
    return {{"LOCKSTEP_CUDA_DRIVER", FAKE_CUDA_DRIVER}, {"FAKE_CUDA", what}, {"CUDA_VISIBLE_DEVICES", "4,5"}};
  }
};

TEST_F(BadDevice, NoDriverAndNoGpu) {
  for (int nproc : {1, 2}) {
    refused(nproc, {"--train.device=cuda"}, none(),
            "UserError: no CUDA driver: /no/such/libcuda.so.1: cannot open shared object file: No such file "
            "or directory; "
            "LOCKSTEP_CUDA_DRIVER names this file, unset it to use libcuda.so.1, or train with train.device "
            "\"cpu\"\n");
    refused(nproc, {"--train.device=cuda"}, fake("devices=0"),
            "finds no device: CUDA_VISIBLE_DEVICES is \"4,5\"; see what nvidia-smi lists, or train with "
            "train.device \"cpu\"\n");
    refused(nproc, {"--train.device=cuda"}, fake("init=999"), "does not start: CUDA_ERROR_FAKE (999)");
  }
}

TEST_F(BadDevice, AGpuThatIsTooOld) {
  for (int nproc : {1, 2})
    for (const char* device : {"cuda", "auto"})
      refused(nproc, {str("--train.device=", device)}, fake("devices=2 major=7"),
              "GPU 0 (Fake 7000) has compute capability 7.0; Lockstep needs 8.0 or higher (bf16 matrix "
              "units): use an A100, a GeForce "
              "RTX 30 or anything newer, or train with train.device \"cpu\"\n");
}

TEST_F(BadDevice, FewerGpusThanRanks) {
  refused(2, {"--train.device=cuda"}, fake("devices=1"),
          "rank 1: UserError: train.device \"cuda\": local rank 1 wants GPU 1, this host has 1 "
          "(CUDA_VISIBLE_DEVICES counts); start at "
          "most that many ranks per host, or use train.device cpu\n");
  auto result =
      trainrun({"--nproc", "2", "c.json", "--train.steps=10", "--train.device=auto"}, fake("devices=1"));
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_EQ(
      occurrences(
          result.output,
          "train.device auto: the CPU, since this host has 1 GPUs for 2 ranks; start 1 ranks to use them"),
      1)
      << result.output;
}

TEST_F(BadDevice, AGpuByNumber) {
  refused(1, {"--train.device=cuda:7"}, fake("devices=2"),
          "train.device \"cuda:7\": local rank 0 wants GPU 7, this host has 2");
  for (const char* device : {"cuda:0", "cuda:7"}) {
    auto result = trainrun({"--nproc", "2", "c.json", str("--train.device=", device)}, fake("devices=2"));
    EXPECT_EQ(result.code, kExitUser);
    EXPECT_EQ(result.output,
              str("trainrun: train.device \"", device,
                  "\" names one device, and this host has 2 ranks; write \"cuda\": rank i takes device i\n"));
  }
}

TEST_F(BadDevice, PrecisionThatTheDeviceLacks) {
  for (int nproc : {1, 2}) {
    refused(nproc, {"--train.device=auto", "--train.precision=tf32"}, none(),
            "train.precision is \"tf32\", which the CPU does not have; choose fp32, which is more exact, or "
            "bf16, or run on a CUDA "
            "device\n");
    for (const char* precision : {"bf16", "tf32"})
      refused(nproc, {"--train.device=cuda", str("--train.precision=", precision)}, fake("devices=2 major=7"),
              "has compute capability 7.0; Lockstep needs 8.0 or higher (bf16 matrix units)");
  }
}

// A checkpoint of a GPU's run is read where there is no GPU: one line says where it runs and why.
TEST_F(BadDevice, GenerateWithoutTheGpuOfTheRun) {
  scratch_.write("text/roses.txt", std::string(4000, 'a'));
  scratch_.write(
      "t.json",
      R"({"name": "run", "model": {"kind": "gpt", "vocab": 256, "context": 16, "width": 32, "depth": 1, "heads": 2},
    "data": {"kind": "text", "paths": ["text"]}, "batch": {"global": 4, "micro": 4},
    "train": {"steps": 20}, "optim": {"schedule": {"warmup": 2}}})");
  train({"t.json"}, none());
  auto on_cpu = trainrun({"generate", "runs/run", "--prompt=a", "--tokens=5"}, none());
  ASSERT_EQ(on_cpu.code, kExitOk) << on_cpu.output;
  const std::string path = "runs/run/ckpt/step-20/manifest.json";
  for (const char* device : {"cuda", "cuda:1"})
    for (const char* precision : {"fp32", "tf32"}) {
      checkpoint::Manifest changed = checkpoint::parse_manifest(file_text(path), path);
      changed.config["train"]["device"] = device;
      changed.config["train"]["precision"] = precision;
      scratch_.write(path, checkpoint::to_text(changed));
      auto result = trainrun({"generate", "runs/run", "--prompt=a", "--tokens=5"}, none());
      EXPECT_EQ(result.code, kExitOk) << result.output;
      EXPECT_EQ(occurrences(result.output, "trainrun: on CPU (no CUDA driver: /no/such/libcuda.so.1: "), 1)
          << result.output;
      EXPECT_EQ(result.output.substr(result.output.find('\n') + 1), on_cpu.output);
    }
}

// Without the GPU a plan counts with the CPU's workspaces, says so, and refuses what does not fit a memory
// that is told.
TEST_F(BadDevice, PlanWithoutTheGpu) {
  auto plan = trainrun({"plan", "--long", "c.json", "--train.device=cuda", "--train.precision=bf16"}, none());
  EXPECT_EQ(plan.code, kExitOk) << plan.output;
  for (const char* part :
       {"\n  copies of weights         ",
        "\n  library workspaces        at most 33619968 bytes (32.06 MiB)\n",
        "\n  driver and libraries      at most ", "planned without the device (no CUDA driver: ",
        "kernels and workspaces of attention and convolutions are counted as the CPU's, those of products by "
        "the device's bound\n",
        "\nnumerics certificate of the CPU, since the device is not here (equal certificates promise equal "
        "bits, on any "
        "number of data ranks)\n"})
    EXPECT_HAS(plan.output, part);
  // Products in float8 are the device's own: what the CPU takes to multiply so is not counted.
  const auto activations = [&](const std::string& device) {
    const auto result =
        trainrun({"plan", "--json", "c.json", "--train.precision=float8", "--train.float8.head=true",
                  "--model.vocab=4096", "--train.device=" + device},
                 none());
    EXPECT_EQ(result.code, kExitOk) << result.output;
    const Json plan = Json::parse(result.output);
    int64_t out = plan["memory"]["device"]["evaluation_within"].get<int64_t>();
    for (const Json& part : plan["memory"]["device"]["parts"])
      if (part["name"] == "activations" || part["name"] == "evaluation") out += part["bytes"].get<int64_t>();
    return out;
  };
  const int64_t of_gpu = activations("cuda"), of_cpu = activations("cpu");
  EXPECT_GT(of_gpu, 0);
  EXPECT_LT(of_gpu, of_cpu);
  auto full = trainrun({"plan", "--memory", "1GiB", "c.json", "--train.device=cuda"}, none());
  EXPECT_EQ(full.code, kExitUser) << full.output;
  EXPECT_HAS(full.output, "run does not fit on 1 rank: the fullest one needs ");
  EXPECT_HAS(full.output,
             "no smaller batch.micro fits, on up to 8 times the ranks either: choose a smaller model or a "
             "larger device\n");
  // The memory of a device that a roofline describes is known, and is no less a limit.
  auto asked = trainrun(
      {"plan", "c.json", "--train.device=cuda", "--roofline=a100", "--model.depth=100", "--model.width=8192"},
      none());
  EXPECT_EQ(asked.code, kExitUser) << asked.output;
  EXPECT_HAS(asked.output,
             "  fits      no: the device has 79.00 GiB (roofline a100); nor does a smaller batch.micro, ");
  EXPECT_HAS(asked.output, " of the 79.00 GiB of its device, ");
}

}  // namespace
}  // namespace lockstep::tests
