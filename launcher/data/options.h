// Options of data: the words of the config's "data" object; and a file, as others know it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::launcher::data {

// One of several sources, and its share of the samples.
struct DataSource {
  std::vector<std::string> paths;
  double weight = 1;
  std::string text_key = {}, prompt_key = {}, completion_key = {}, messages_key = {}, label_key = {},
              pair_key = {};  // "": those of DataOptions
};

// How pictures become samples (image_samples.h).
struct PictureOptions {
  std::string crop = "center";  // center | random | resized
  double crop_share = 0.875;    // of random: the part's share of the largest that fits, along each side
  bool flip = false;            // half of the training samples are mirrored
  std::vector<double> mean = {0}, deviation = {1};  // of each channel, or of all
};

// What to read. The words are those of the config's "data" object.
struct DataOptions {
  std::string kind = "text";             // text | tokens | jsonl | images | arrays
  std::vector<std::string> paths = {};   // files, folders (recursively), patterns with * ? and **
  std::vector<DataSource> sources = {};  // in place of paths: several, mixed by their weights (mixture.h)
  std::string tokenizer = "bytes";       // of text: bytes, or a tokenizer.json of Hugging Face
  std::string dtype = "uint16";          // of kind tokens: uint16 (u16) | uint32 (u32)
  std::string order = "shuffle";         // shuffle | sequential
  double validation = 0.0;               // the last fraction of each file, in [0, 1)
  int64_t vocab = 256;                   // every token read must be below it
  int64_t context = 128;                 // tokens per sequence; a sample reads one more, the last target
  uint64_t seed = 0;                     // keys order shuffle
  bool raw = false;  // kind text: files of records too (.jsonl, .csv, ...), as the bytes they are; kind
                     // tokens: whatever its bytes look like (token_form.h)
  int64_t read_whole =
      int64_t{16}
      << 30;  // data of at most so many bytes is read whole when it is opened, of more blocks (scan.h)
  std::string cache = {};    // folder of what was made of files before (scan.h, token_store.h); "": none
  std::string eos = "auto";  // of text that a tokenizer reads: the token that ends a document (end_token.h)
  // Of jsonl: the members of a record, the template of its messages (record.h), and how rows are made of
  // documents: documents (several in a row, apart), none (one in a row), stream (as one text).
  std::string text_key = "text", prompt_key = "prompt", completion_key = "completion",
              messages_key = "messages", chat_template = "chatml", pack = "documents";
  // Of jsonl with classes: members of a record (its second text, where it has one), and the names of the
  // classes in their order.
  std::string label_key = "label", pair_key = "text_pair";
  std::vector<std::string> classes = {};
  bool of_several = false;  // one of the sources of a mixture
  PictureOptions image = {};
};

// A file of the data, as a checkpoint and other ranks know it.
struct DataFile {
  std::string
      name;  // without its folder, so that data can move; a second file of the name has " #2" behind it
  int64_t tokens = 0;
  std::string fingerprint;  // 16 hex digits over name, size and content
};

}  // namespace lockstep::launcher::data
