// Token files of another form than they are read in: each is refused by what its bytes look like.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "core/base/error.h"
#include "launcher/data/dataset.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

class TokenForms : public testing::Test {
 protected:
  // Tokens as numbers of this type, in the order of this machine or the other one.
  template <class Stored>
  static std::string bytes(const std::vector<int64_t>& tokens, bool turned = false) {
    std::string out;
    for (int64_t token : tokens) {
      const auto stored = static_cast<Stored>(token);
      char one[sizeof stored];
      std::memcpy(one, &stored, sizeof stored);
      if (turned) std::reverse(std::begin(one), std::end(one));
      out.append(one, sizeof stored);
    }
    return out;
  }
  template <class Stored>
  std::string file(const std::vector<int64_t>& tokens, bool turned = false) {
    return folder_.write("t.bin", bytes<Stored>(tokens, turned));
  }
  static std::string refusal(const std::string& path, const std::string& dtype, bool raw = false,
                             int64_t vocab = int64_t{1} << 32) {
    DataOptions options{.kind = "tokens", .paths = {path}, .dtype = dtype, .vocab = vocab, .context = 4};
    options.raw = raw;
    try {
      Dataset{options};
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  }
  // The ids of a text: none above `most`.
  static std::vector<int64_t> tokens(int64_t most, int64_t count = 4000) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < count; ++i) out.push_back(i * 7919 % most);
    return out;
  }
  void expect_says(const std::string& path, const std::string& dtype, const std::string& words) {
    const std::string said = refusal(path, dtype);
    EXPECT_NE(said.find("data.paths: " + path + ": " + words), std::string::npos)
        << said << "\ndoes not say: " << words;
    EXPECT_NE(said.find(". To read it as it is all the same, say so with data.raw=true"), std::string::npos)
        << said;
    EXPECT_EQ(refusal(path, dtype, true), "no error");
  }
  ScratchFolder folder_;
};

TEST_F(TokenForms, TheirOwnAreRead) {
  for (int64_t most : {2, 40, 251, 1000, 50257, 65536}) {
    EXPECT_EQ(refusal(file<uint16_t>(tokens(most)), "uint16"), "no error") << most;
    EXPECT_EQ(refusal(file<uint32_t>(tokens(most)), "uint32"), "no error") << most;
  }
  EXPECT_EQ(refusal(file<uint32_t>(tokens(128256)), "uint32"), "no error");
  EXPECT_EQ(refusal(file<uint16_t>(std::vector<int64_t>(4000, 0)), "uint16"),
            "no error");  // nothing speaks of it
  EXPECT_EQ(refusal(file<uint16_t>(std::vector<int64_t>(4000, 5)), "uint16"), "no error");
  EXPECT_EQ(refusal(file<uint16_t>({5, 0, 6, 0, 7, 0, 8, 0}), "uint16"), "no error");  // too few to tell
  // Padding at the beginning, and nothing odd behind it.
  std::vector<int64_t> padded(20000, 0);
  for (size_t i = 10000; i < padded.size(); ++i) padded[i] = static_cast<int64_t>(i * 31 % 997);
  EXPECT_EQ(refusal(file<uint16_t>(padded), "uint16"), "no error");
}

TEST_F(TokenForms, WiderOnes) {
  for (int64_t most : {40, 251, 50257}) {
    expect_says(file<int32_t>(tokens(most)), "uint16",
                "each second token is 0 (data.dtype uint16), as in a file of uint32 or int32; set data.dtype "
                "to uint32");
    expect_says(file<int64_t>(tokens(most)), "uint16",
                "three of four tokens are 0 (data.dtype uint16), as in a file of int64; only uint16 and "
                "uint32 are read");
    expect_says(
        file<int64_t>(tokens(most)), "uint32",
        "each second token is 0 (data.dtype uint32), as in a file of int64; only uint16 and uint32 are read");
  }
  // Ids of a vocabulary beyond 65,536.
  expect_says(file<int32_t>(tokens(128256)), "uint16",
              "each second token is tiny (data.dtype uint16), as in a file of uint32 or int32; set "
              "data.dtype to uint32");
  expect_says(file<int64_t>(tokens(128256)), "uint16", "three of four tokens are 0 (data.dtype uint16)");
  expect_says(file<int64_t>(tokens(251)), "uint16",
              "three of four tokens are 0 (data.dtype uint16), as in a file of int64; only uint16 and uint32 "
              "are read, in the "
              "order of x86: write it anew, as with python3 -c 'import numpy; numpy.fromfile(\"" +
                  folder_.path("t.bin") +
                  "\", \"<i8\").astype(\"uint32\").tofile(\"tokens.bin\")' and data.dtype uint32");
  // Where the beginning is padding.
  std::vector<int64_t> padded(20000, 0);
  for (size_t i = 10000; i < padded.size(); ++i) padded[i] = static_cast<int64_t>(i * 31 % 997);
  expect_says(file<int32_t>(padded), "uint16", "each second token is 0");
}

// Files of two widths, joined at any place: of one part the halves are tokens of their own, or two are one.
TEST_F(TokenForms, TwoWidthsInAFile) {
  auto expect_joined = [&](const std::string& path, const char* dtype, int64_t at, int width,
                           const char* first, const char* then) {
    const std::string said = refusal(path, dtype, false, 50257);
    const size_t byte = said.find("(byte ");
    ASSERT_NE(byte, std::string::npos) << said << " " << at;
    EXPECT_LE(std::abs(std::stoll(said.substr(byte + 6)) - at), 1024 * width) << said << " " << at;
    EXPECT_NE(said.find(str("data.paths: ", path, ": tokens up to about ")), std::string::npos) << said;
    EXPECT_NE(
        said.find(str(") look like ", first, ", and those behind them like ", then, " (data.dtype ", dtype,
                      "), as where files of two widths were joined; write each as uint32, as numpy's astype "
                      "does, join those, and set data.dtype to uint32. To read it as it is all the same, say "
                      "so with data.raw=true")),
        std::string::npos)
        << said;
    if (dtype == std::string("uint16")) EXPECT_EQ(refusal(path, dtype, true), "no error");
  };
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    const int64_t most = i % 2 ? 50257 : 100 + random() % 200, size = 3000 << (i % 5);
    const std::vector<int64_t> front = tokens(most, size + random() % 1000), behind = tokens(most, size);
    const auto joined = [&]<class Front, class Behind>(Front, Behind, const char* dtype, const char* first,
                                                       const char* then) {
      std::vector<int64_t> even = front;
      if (dtype == std::string("uint32")) even.resize(even.size() / 2 * 2);
      const std::string before = bytes<Front>(even),
                        path = folder_.write("t.bin", before + bytes<Behind>(behind));
      expect_joined(path, dtype, static_cast<int64_t>(before.size()), sizeof(Front) + sizeof(Behind), first,
                    then);
    };
    joined(uint16_t{}, uint32_t{}, "uint16", "uint16", "uint32");
    joined(uint32_t{}, uint16_t{}, "uint16", "uint32", "uint16");
    joined(uint16_t{}, int64_t{}, "uint16", "uint16", "int64");
    joined(uint32_t{}, int64_t{}, "uint32", "uint32", "int64");
    if (most < 1000) continue;  // of a small vocabulary ids beyond it are
    joined(uint32_t{}, uint16_t{}, "uint32", "uint32", "uint16");
    joined(uint16_t{}, uint32_t{}, "uint32", "uint16", "uint32");
  }
}

// What files of one width hold: short and long records with padding behind them, one word again and again,
// numbers between commas, vocabularies small and large.
TEST_F(TokenForms, OneWidthIsReadWhateverItHolds) {
  std::mt19937 random(11);
  for (int i = 0; i < 40; ++i) {
    const int64_t vocab = std::vector<int64_t>{3, 20, 256, 32000, 50257, 65536, 128256, 262144}[i % 8];
    std::vector<int64_t> all;
    while (all.size() < 60000) {
      const int64_t row = 16 << random() % 6, words = 1 + random() % row, kind = random() % 5;
      for (int64_t k = 0; k < row; ++k)
        all.push_back(k >= words && kind < 3 ? 0
                      : kind == 3            ? vocab / 2
                      : kind == 4 && k % 2   ? 11 % vocab
                                             : random() % std::max<int64_t>(2, vocab >> random() % 8));
    }
    if (vocab <= 65536) EXPECT_EQ(refusal(file<uint16_t>(all), "uint16", false, vocab), "no error") << i;
    EXPECT_EQ(refusal(file<uint32_t>(all), "uint32", false, vocab), "no error") << i;
  }
}

TEST_F(TokenForms, TheOtherByteOrder) {
  expect_says(file<int16_t>(tokens(200), true), "uint16",
              "all tokens are multiples of 256 (data.dtype uint16)");
  for (const char* dtype : {"uint16", "uint32"})
    expect_says(
        file<int32_t>(tokens(128256), true), dtype,
        str(dtype == std::string("uint16") ? "each second token is tiny" : "all tokens are multiples of 256",
            " (data.dtype ", dtype, "), as in a file of uint32 in the other byte order; only uint16 and"));
  expect_says(file<int32_t>(tokens(1000), true), "uint16",
              "each second token is 0 (data.dtype uint16), as in a file of uint32 in the other byte order");
  expect_says(
      file<int64_t>(tokens(1000), true), "uint16",
      "three of four tokens are 0 (data.dtype uint16), as in a file of int64 in the other byte order");
  expect_says(file<int64_t>(tokens(1000), true), "uint32",
              "each second token is 0 (data.dtype uint32), as in a file of int64 in the other byte order");
}

// What stands for no token, in files of labels.
TEST_F(TokenForms, NegativeOnes) {
  const std::string anew =
      " with negative numbers, which are no tokens; write it anew without them, as numpy's tofile does of "
      "uint32";
  for (int64_t none : {-1, -100})
    for (size_t each : {7, 5000}) {
      std::vector<int64_t> labels = tokens(50257);
      for (size_t i = 5; i < labels.size(); i += each) labels[i] = none;
      expect_says(file<int32_t>(labels), "uint16",
                  "each second token is 0 or 65535 (data.dtype uint16), as in a file of int32" + anew);
      expect_says(file<int64_t>(labels), "uint16",
                  "three of four tokens are 0 or 65535 (data.dtype uint16), as in a file of int64" + anew);
      expect_says(file<int64_t>(labels), "uint32",
                  "each second token is 0 or 4294967295 (data.dtype uint32), as in a file of int64" + anew);
      expect_says(
          file<int32_t>(labels, true), "uint16",
          "each second token is 0 or 65535 (data.dtype uint16), as in a file of int32 in the other byte "
          "order" +
              anew);
    }
}

TEST_F(TokenForms, Floats) {
  for (int64_t most : {251, 2048})
    for (const char* dtype : {"uint16", "uint32"})
      expect_says(
          file<_Float16>(tokens(most)), dtype,
          str("the bytes are whole numbers of float16 (data.dtype ", dtype, "); only uint16 and uint32 are"));
  for (int64_t most : {40, 50257, 128256})
    for (const char* dtype : {"uint16", "uint32"}) {
      expect_says(
          file<float>(tokens(most)), dtype,
          str("the bytes are whole numbers of float32 (data.dtype ", dtype,
              "); only uint16 and uint32 are "
              "read, in the order of x86: write it anew, as with python3 -c 'import numpy; numpy.fromfile(\"",
              folder_.path("t.bin"), "\", \"<f4\")"));
      expect_says(file<double>(tokens(most)), dtype, "the bytes are whole numbers of float64");
    }
}

TEST_F(TokenForms, Utf16) {
  std::vector<int64_t> text;
  for (int i = 0; i < 200; ++i)
    for (char c : str("line ", i, "\n")) text.push_back(c);
  text.resize(text.size() / 2 * 2);  // uint32, too
  const char* words =
      "all tokens are characters of text, as in a file of UTF-16; write it as UTF-8 (iconv -f utf-16 "
      "-t utf-8), and read it with data.kind text";
  for (const char* dtype : {"uint16", "uint32"}) expect_says(file<uint16_t>(text), dtype, words);
  text.insert(text.begin(), {0xfeff, '\n'});
  expect_says(file<uint16_t>(text), "uint16", words);
}

TEST_F(TokenForms, OtherFormats) {
  const std::string body(2000, '\3');
  const std::pair<std::string, const char*> all[] = {
      {"\x93NUMPY\x01", "the file is a NumPy array (.npy); write its tokens alone, as numpy's tofile does"},
      {"PK\x03\x04", "the file is an archive (.zip, .npz, .pt)"},
      {"\x1f\x8b\x08", "the file is compressed by gzip"},
      {"\x28\xb5\x2f\xfd", "the file is compressed by zstd"},
      {std::string("\xfd\x37zXZ\0", 6), "the file is compressed by xz"},
      {"PAR1", "the file is a Parquet table"},
      {"ARROW1", "the file is an Arrow table"},
      {"\x89HDF", "the file is a file of HDF5"},
      {std::string("\x80\4\x95\xf0\7\0\0\0\0\0\0\x8c", 12),
       "the file is a pickle of Python; write its tokens alone"},
      {"\x80\3cnumpy.core.multiarray\n", "the file is a pickle of Python"},
      {std::string("\x40\0\0\0\0\0\0\0{\"__", 12), "the file is of safetensors"}};
  for (const auto& [begin, words] : all) {
    std::string bytes = begin + body;
    bytes.resize(2000);
    expect_says(folder_.write("t.bin", bytes), "uint16", words);
  }
  std::string text;
  for (int i = 0; i < 200; ++i) text += str("line ", i, "\n");
  text.resize(text.size() / 4 * 4);
  for (const char* dtype : {"uint16", "uint32"})
    expect_says(folder_.write("t.bin", text), dtype,
                "all bytes are those of text; read it with data.kind text, or jsonl");
}

}  // namespace
}  // namespace lockstep::launcher::data
