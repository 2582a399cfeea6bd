// Faults of data files: damaged, of another format, changed or taken away under a run.
#include <sys/stat.h>

#include <cstring>

#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class Data : public FaultRun {
 protected:
  void SetUp() override {
    FaultRun::SetUp();
    write_tiny();
  }
  static Words on(int nproc, Words more = {}) {
    Words words = {"--nproc", str(nproc), "--train.device=cpu", "c.json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void refused(const Words& words, const std::string& said) {
    const Result result = trainrun(words, {}, 30);
    EXPECT_EQ(result.code, kExitUser) << said << "\nin:\n" << result.output;
    EXPECT_HAS(result.output, said);
    EXPECT_EQ(last_step("run"), 0) << "before the first step: " << said;
  }
};

TEST_F(Data, Row38DamagedData) {
  const Words tokens = on(2), other = on(2, {"--data.paths=[other.bin]"});
  std::string bytes = file_text("tokens.bin");
  auto write = [&](const std::function<void(std::string&)>& edit) {
    std::string changed = bytes;
    edit(changed);
    scratch_.write("other.bin", changed);
  };
  // At rest: each before the first step.
  write([](std::string& b) { b.pop_back(); });
  refused(other, "other.bin has 11999 bytes, which is not a multiple of 2");
  write([](std::string& b) { b.clear(); });
  refused(other, "other.bin is empty");
  write([](std::string& b) { b[10999] = 0x7f; });  // far behind what the first step reads
  refused(other,
          "at other.bin, token 5499 (byte 10998) >= model.vocab 64; set model.vocab and data.dtype (of a "
          "TokenFile .vocab and .dtype) to those of the file");
  auto header = [&](int32_t magic, int32_t count) {
    std::vector<int32_t> words(256, 0);
    words[0] = magic, words[1] = 1, words[2] = count;
    write([&](std::string& b) { b.insert(0, reinterpret_cast<const char*>(words.data()), 1024); });
  };
  header(20240520, 6001);
  refused(other,
          "its header counts 6001 tokens, which makes 13026; the file is cut short or its header is wrong");
  header(20240519, 6000);
  refused(other, "other.bin begins with what looks like a header of magic 20240519");
  fs::remove("other.bin");
  ASSERT_EQ(::mkfifo("other.bin", 0600), 0);
  refused(other, "other.bin is neither a file nor a folder");
  fs::create_directory("records");
  scratch_.write("records/a.jsonl", "{\"text\": \"once\"}\n{\"text\": \"twice\"}\n");
  refused(on(2, {"--data.kind=text", "--model.vocab=256", "--data.paths=[records]"}),
          "a.jsonl is JSON lines, a record to a line, and data.kind text trains on the bytes of files as "
          "they are");

  // Under a run: a file that is replaced or deleted goes on being read; one that is cut is an error with its
  // name and sizes.
  std::vector<uint16_t> large(1 << 20);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<uint16_t>((i * 7 + i / 64) % 64);
  auto run_on = [&](const std::string& name, const std::function<void()>& harm, Words more = {}) {
    scratch_.write("large.bin", large);
    more.insert(more.end(), {"--data.paths=[large.bin]", "--data.validation=0", "--name=" + name});
    auto process = start(on(2, more));
    EXPECT_TRUE(until(60, [&] { return last_step(name) >= 10; })) << process->output();
    harm();
    return process;
  };
  auto whole = run_on("whole", [] {}, {"--train.steps=400"});
  EXPECT_EQ(whole->wait(60), kExitOk) << whole->output();
  auto replaced = run_on("replaced", [] { fs::remove("large.bin"), std::ofstream("large.bin") << "other"; },
                         {"--train.steps=400"});
  EXPECT_EQ(replaced->wait(60), kExitOk) << replaced->output();
  EXPECT_EQ(final_hash("replaced"), final_hash("whole"));
  auto rewritten = run_on("rewritten",
                          [&] {
                            std::fstream file("large.bin", std::ios::in | std::ios::out | std::ios::binary);
                            file.seekp(1000000), file.put(1);
                          },
                          {"--train.steps=400"});
  EXPECT_EQ(rewritten->wait(60), kExitOk) << rewritten->output();
  EXPECT_EQ(occurrences(rewritten->output(), "large.bin was written to while the run reads it"), 1)
      << rewritten->output();
  auto cut = run_on("cut", [] { fs::resize_file("large.bin", 0); }, {"--train.steps=1000000"});
  EXPECT_EQ(cut->wait(60), kExitUser) << cut->output();
  EXPECT_HAS(cut->output(),
             "data.paths: cannot read large.bin: it ended after 0 of 2097152 bytes; it became shorter while "
             "it was read: put it back");
  EXPECT_EQ(cut->output().find("SIGBUS"), std::string::npos) << cut->output();
  EXPECT_HAS(cut->output(), "root cause: rank ");
  row({.fault = "token files of an odd size, empty, with an id beyond the vocabulary late in the file, with "
                "a wrong count, with another magic, a FIFO, .jsonl as "
                "text; replaced, written to under a run; truncate -s 0 under a run",
       .seen = "root cause: rank 0: UserError at step 25: data.paths: cannot read large.bin: it ended after "
               "0 of 2097152 bytes; it became shorter while it was read: put it back and start again",
       .code = "2 (replaced: 0)",
       .detected = "before step 1; at the next step",
       .recovered = "put the file back, same command",
       .lost = "0; to the last checkpoint",
       .same_bits = "yes (replaced)"});
}

}  // namespace
}  // namespace lockstep::tests
