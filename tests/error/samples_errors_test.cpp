// Samples of arrays and of tokens: what is read, exactly, and each refusal on its words.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "core/base/error.h"
#include "launcher/data/kinds/open_samples.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

// A .npy file of version 1 as numpy.save writes it.
template <class T>
std::string npy(const std::string& descr, const std::string& shape, const std::vector<T>& values,
                const std::string& order = "False") {
  std::string header = str("{'descr': '", descr, "', 'fortran_order': ", order, ", 'shape': ", shape, ", }");
  header += std::string((64 - (10 + header.size() + 1) % 64) % 64, ' ') + "\n";
  std::string out = "\x93NUMPY";
  out += '\x01', out += '\x00';
  out += static_cast<char>(header.size() & 255), out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return out;
}

class Arrays : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.path(name), std::ios::binary) << bytes;
  }
  DataOptions options(double validation = 0) const {
    DataOptions out{.kind = "arrays", .paths = {folder_.path("")}, .order = "sequential"};
    out.validation = validation;
    return out;
  }
  std::string refusal(const std::vector<SampleField>& fields) {
    try {
      open_samples(options(), fields);
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  }
  void expect_says(const std::vector<SampleField>& fields, const std::string& words) {
    const std::string message = refusal(fields);
    EXPECT_NE(message.find(words), std::string::npos) << message << "\ndoes not say: " << words;
  }
  ScratchFolder folder_;
};

const std::vector<SampleField> kImages = {{"images", DType::f32, {2, 2}}, {"labels", DType::i32, {}, 10}};

TEST_F(Arrays, RowsAreReadByTheirIndexAndConverted) {
  write("images.npy", npy<uint8_t>("|u1", "(3, 2, 2)", {0, 51, 102, 153, 204, 255, 0, 51, 1, 2, 3, 4}));
  write("labels.npy", npy<int64_t>("<i8", "(3,)", {7, -100, 9}));
  auto samples = open_samples(options(1.0 / 3), kImages);
  EXPECT_EQ(samples->validation(), 1);
  std::vector<float> images(8);
  std::vector<int32_t> labels(2);
  samples->fill(0, 2, 0, 2, {images.data(), labels.data()});
  EXPECT_EQ(images, (std::vector<float>{0, 51 / 255.0f, 102 / 255.0f, 153 / 255.0f, 204 / 255.0f, 1, 0,
                                        51 / 255.0f}));
  EXPECT_EQ(labels, (std::vector<int32_t>{7, -100}));
  samples->fill(1, 3, 0, 1, {images.data(), labels.data()});  // sample 3 of 2: the second one again
  EXPECT_EQ(labels[0], -100);
  samples->fill_validation(0, 1, {images.data(), labels.data()});
  EXPECT_EQ(labels[0], 9);
  EXPECT_EQ(images[3], 4 / 255.0f);
  EXPECT_EQ(samples->counts(),
            (std::pair<std::string, std::string>("samples", "2 for training, 1 for validation")));
}

TEST_F(Arrays, FloatsOfEachWidthAndWholeNumbers) {
  write("x.npy", npy<double>("<f8", "(2, 2)", {0.5, -1.25, 3, 1e-3}));
  write("n.npy", npy<int16_t>("<i2", "(2,)", {-3, 4}));
  auto samples = open_samples(options(), {{"x", DType::f32, {2}}, {"n", DType::i32, {}}});
  std::vector<float> x(4);
  std::vector<int32_t> n(2);
  samples->fill(0, 2, 0, 2, {x.data(), n.data()});
  EXPECT_EQ(x, (std::vector<float>{0.5f, -1.25f, 3, 1e-3f}));
  EXPECT_EQ(n, (std::vector<int32_t>{-3, 4}));
}

TEST_F(Arrays, RefusalsNameFileFieldAndWayOut) {
  write("images.npy", npy<float>("<f4", "(2, 2, 2)", std::vector<float>(8)));
  expect_says(kImages, "has no labels.npy, and a sample has labels i32[]; there is: images");
  write("labels.npy", npy<float>("<f4", "(2,)", {1, 2}));
  expect_says(kImages, "labels.npy holds floats (f4), and labels are integers; save them as such");
  write("labels.npy", npy<int32_t>("<i4", "(2,)", {1, 10}));
  expect_says(kImages,
              "labels.npy has 10 in sample 1; labels lie in [0, 10), or are -100, which counts nothing");
  write("labels.npy", npy<int32_t>("<i4", "(3,)", {1, 2, 3}));
  expect_says(kImages, "labels.npy has 3 samples, and ");
  write("labels.npy", npy<int64_t>("<i8", "(2,)", {1, int64_t{1} << 40}));
  expect_says(kImages, "labels.npy has 1099511627776 in sample 1, beyond a 32-bit integer");
  write("labels.npy", npy<int32_t>("<i4", "(2, 1)", {1, 2}));
  expect_says(kImages,
              "labels.npy holds samples of [1], and labels is labels i32[]; set the model's options");
  write("images.npy", npy<float>("<f4", "(2, 2, 2)", std::vector<float>(7)));
  expect_says(kImages, "images.npy has 28 bytes of elements, fewer than its shape [2,2,2] of f4 needs");
  write("images.npy", npy<float>("<f4", "(2, 2, 2)", std::vector<float>(8), "True"));
  expect_says(kImages, "images.npy lies in Fortran's order; save numpy.ascontiguousarray of it");
  write("images.npy", npy<float>(">f4", "(2, 2, 2)", std::vector<float>(8)));
  expect_says(kImages, "images.npy has its bytes in big-endian order");
  write("images.npy", npy<float>("<c8", "(2, 2, 2)", std::vector<float>(16)));
  expect_says(kImages, "images.npy has elements of type c8; f2, f4, f8, integers and b1 are read");
  // Headers of up to 64 KiB, which a regular expression followed into its stack.
  auto shape_says = [&](const std::string& shape, const std::string& words) {
    write("images.npy", npy<float>("<f4", shape, std::vector<float>(8)));
    expect_says(kImages, "images.npy " + words);
  };
  std::string dims;
  for (int i = 0; i < 20000; ++i) dims += "1, ";
  shape_says("(" + dims + ")", "has a shape of more than 64 dims");
  shape_says("(" + std::string(60000, '1') + ",)",
             "has a dim of 1111111111111111111111111111111111111111... (59960 more)");
  shape_says("(9999999999999999999,)", "has a dim of 9999999999999999999 elements");
  shape_says("(2, 999999999999, 999999999999)", "has a shape beyond 2^63 elements");
  shape_says("(-1, 2)", "has a header without a shape");
  shape_says("()", "is a single number; its first dim counts samples");
  shape_says("(2, 2, 2", "has a header without a shape");
  shape_says("(2 2)",
             "has a header that numpy does not write: {'descr': '<f4', 'fortran_order': False, 'shape'");
  shape_says("(2, 2, 2), 'shape': (1,)", "has a header that numpy does not write: ");
  shape_says("(2, 2, 2), 'more': 1", "has a header that numpy does not write: ");
  write("images.npy", npy<float>("<f4", "(2, 2, 2)", std::vector<float>(8), "Maybe"));
  expect_says(kImages, "images.npy has a header that numpy does not write: ");
  write("images.npy", npy<float>("x', 'a\nb': 'c", "(2,)", std::vector<float>(8)));
  expect_says(kImages, "images.npy has no plain numbers; its header says {'descr': 'x', 'a\\nb': ");
  // Read, as numpy does.
  write("images.npy", npy<float>("<f4", "(" + std::string(60000, ' ') + "2, 2L ,2)", std::vector<float>(8)));
  write("labels.npy", npy<int32_t>("<i4", "(2,)", {1, 2}));
  EXPECT_EQ(refusal(kImages), "no error");
  write("images.npy", "PK\x03\x04 an archive");
  expect_says(kImages, "images.npy is no .npy array; numpy.save writes one");
}

TEST_F(Arrays, Archives) {
  auto archive_says = [&](const std::string& bytes, const std::string& words) {
    write("a.npz", bytes);
    try {
      DataOptions o = options();
      o.paths = {folder_.path("a.npz")};
      open_samples(o, kImages);
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
          << error.what() << "\ndoes not say: " << words;
    }
  };
  auto whole = [](const char* name) {
    std::ifstream file(str(ARRAYS, "/", name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string stored = whole("stored.npz"), packed = whole("packed.npz");
  ASSERT_GT(stored.size(), 500u);
  archive_says("x", "a.npz is no .npz archive; numpy.savez writes one");
  archive_says(stored, "a.npz holds samples of [3,4], and images is images f32[2,2]");
  archive_says(stored.substr(200), "a.npz is an archive");
  const size_t directory = stored.find("PK\x01\x02");
  std::string other = stored;
  other[directory + 10] = 12;  // the way of packing
  archive_says(other, "packs images.npy in a way that is not read (method 12)");
  other = stored, other[directory] = 'x';
  archive_says(other, "is an archive whose directory is damaged");
  other = packed, other[packed.find("images.npy") + 40] ^= 0x55;
  archive_says(other, "images");
  other = packed, other[packed.find("PK\x01\x02") + 27] = 0x70;  // 1.8 GiB out of some hundred bytes
  archive_says(other, "packs images into fewer bytes than it can have");
  // Bytes that are not those of the archive's own sum.
  other = packed, other[packed.find("PK\x01\x02") + 16] ^= 1;
  archive_says(other, "has images packed, and damaged");
  const std::vector<SampleField> fields = {{"images", DType::f32, {3, 4}}};
  auto open = [&](const std::string& bytes) {
    write("b.npz", bytes);
    DataOptions o = options();
    o.paths = {folder_.path("b.npz")};
    open_samples(o, fields);
  };
  EXPECT_NO_THROW(open(stored));
  other = stored, other[stored.find("PK\x03\x04", 4) - 1] ^= 1;  // the last byte of the first array
  try {
    open(other);
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("b.npz is damaged: the bytes of "), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(" have the CRC-32 "), std::string::npos) << error.what();
  }
}

TEST_F(Arrays, TokensGiveNoImages) {
  try {
    open_samples({.kind = "text", .paths = {folder_.path("")}}, kImages);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "data.kind is text, rows of tokens, and a sample of this model and task has images f32[2,2], labels "
        "i32[]; choose data.kind arrays and name a file for each in data.paths: images.npy, ...");
  }
}

// Who has no data yet is told what data of the kind are, and how they are made; a slip in a name is not that.
TEST_F(Arrays, DataThatAreNotThere) {
  auto says = [&](DataOptions options, const std::vector<SampleField>& fields, const std::string& words) {
    try {
      open_samples(options, fields);
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
          << error.what() << "\ndoes not say: " << words;
    }
  };
  const std::string npz = folder_.path("pictures.npz"), none = folder_.path("data/texts.jsonl");
  says({.kind = "arrays", .paths = {npz}}, kImages,
       str("data.paths: ", npz, " does not exist; nothing in ", folder_.path("").substr(0, npz.size() - 13),
           " has a name like pictures.npz. data.kind arrays reads arrays of NumPy, whose first dim counts "
           "samples "
           "of images f32[2,2], labels i32[] of 0 to 9; in Python numpy.savez(\"",
           npz,
           "\", images=..., labels=...) writes them, and configs/README.md has a line that makes some to "
           "try; --data.paths=[PATH] names yours"));
  const std::vector<SampleField> texts = {{"ids", DType::i32, {8}},
                                          {"lengths", DType::i32, {}},
                                          {"token_type_ids", DType::i32, {8}},
                                          {"labels", DType::i32, {}, 2}};
  says({.kind = "jsonl", .paths = {none}, .classes = {"negative", "positive"}}, texts,
       str("data.paths: ", none, " does not exist; there is no folder ", folder_.path("data"),
           ". data.kind jsonl reads JSON lines, as json.dumps({\"text\": \"a fine film\", \"label\": "
           "\"positive\"}) in Python writes one for each text, and configs/README.md has a line that makes "
           "some to try; --data.paths=[PATH] names yours"));
  const std::vector<SampleField> rows = {{"ids", DType::i32, {8}}, {"targets", DType::i32, {8}}};
  says({.kind = "jsonl", .paths = {none}, .pack = "none"}, rows,
       "or with \"messages\", or \"prompt\" and \"completion\"");
  says({.kind = "tokens", .paths = {none}}, rows,
       "ids that a tokenizer made, uint16: python3 bench/gpu/make_tokens.py --out FILE.bin FOLDER");
  says({.kind = "images", .paths = {none}}, {{"images", DType::f32, {3, 8, 8}}},
       "data.kind images reads .png and .jpg files below a folder");
  write("picture.npz", "x");
  says({.kind = "arrays", .paths = {npz}}, kImages,
       str("data.paths: ", npz, " does not exist; nearest: ", folder_.path("picture.npz")));
}

// What a model reads is a token at each place, and the last field says where nothing is learnt.
TEST_F(Arrays, IdsAreNoneThatDoNotCount) {
  std::vector<SampleField> fields = {{"ids", DType::i32, {2}, 10, false, true},
                                     {"targets", DType::i32, {2}, 10}};
  write("ids.npy", npy<int32_t>("<i4", "(2, 2)", {1, 2, 3, -100}));
  write("targets.npy", npy<int32_t>("<i4", "(2, 2)", {1, 2, 3, -100}));
  expect_says(fields,
              "ids.npy has -100 in sample 1; ids lie in [0, 10), and what is not learnt is said in targets, "
              "as -100");
  fields[1] = {"special_tokens_mask", DType::i32, {2}, 2, true};
  expect_says(fields, "ids lie in [0, 10), and what is not learnt is said in special_tokens_mask, as 1");
  write("ids.npy", npy<int32_t>("<i4", "(2, 2)", {1, 2, 3, 10}));
  EXPECT_TRUE(refusal(fields).ends_with("ids.npy has 10 in sample 1; ids lie in [0, 10)")) << refusal(fields);
  // Without a word on it all places are learnt.
  write("ids.npy", npy<int32_t>("<i4", "(2, 2)", {1, 2, 3, 4}));
  int32_t ids[4], unlearnt[4] = {7, 7, 7, 7};
  open_samples(options(), fields)->fill(0, 2, 0, 2, {ids, unlearnt});
  EXPECT_EQ(std::vector<int32_t>(unlearnt, unlearnt + 4), std::vector<int32_t>(4, 0));
  write("special_tokens_mask.npy", npy<uint8_t>("|b1", "(2, 2)", {0, 1, 1, 0}));
  open_samples(options(), fields)->fill(0, 2, 0, 2, {ids, unlearnt});
  EXPECT_EQ(std::vector<int32_t>(unlearnt, unlearnt + 4), (std::vector<int32_t>{0, 1, 1, 0}));
}

TEST_F(Arrays, TokensBehindTokens) {
  write("t.txt", "abcdefghijklmnopqrstuvwxyz");
  auto samples = open_samples(
      {.kind = "text", .paths = {folder_.path("t.txt")}, .order = "sequential"},
      {{"ids", DType::i32, {4}}, {"decoder_ids", DType::i32, {3}}, {"targets", DType::i32, {3}}});
  std::vector<int32_t> ids(4), decoder(3), targets(3);
  samples->fill(0, 1, 0, 1, {ids.data(), decoder.data(), targets.data()});
  EXPECT_EQ(ids, (std::vector<int32_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(decoder, (std::vector<int32_t>{'d', 'e', 'f'}));
  EXPECT_EQ(targets, (std::vector<int32_t>{'e', 'f', 'g'}));
}

}  // namespace
}  // namespace lockstep::launcher::data
