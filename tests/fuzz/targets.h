// The fuzz targets: each feeds bytes to the front door of one reader. An answer or an error that the reader
// documents is well; any other exception, a broken promise (FUZZ_CHECK) and a report of a sanitizer are
// findings.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace lockstep::fuzz {

void config(std::string_view bytes);         // the JSON text, then overrides, each after a NUL
void manifest(std::string_view bytes);       // manifest.json
void safetensors(std::string_view bytes);    // a file, cut after its header
void tokens(std::string_view bytes);         // a byte that chooses the kind, then a data file
void cache_entry(std::string_view bytes);    // machine code under its checksum, as ranks send it
void kernel_cache(std::string_view bytes);   // what is done to a file of the kernel cache, then its code
void hf_config(std::string_view bytes);      // config.json of Hugging Face
void flight_record(std::string_view bytes);  // the head of a worker's progress file
void tokenizer(std::string_view bytes);      // tokenizer.json, a NUL, a text
void records(std::string_view bytes);        // a byte that chooses, then JSON lines
void archive(std::string_view bytes);        // a .npz
void npy(std::string_view bytes);            // a .npy
void picture(std::string_view bytes);        // a PNG or JPEG
void s3_answer(std::string_view bytes);      // XML of an object store
void run_logs(std::string_view bytes);       // logs and an error record, a NUL between them
void json(std::string_view bytes);           // any JSON
void hosts(std::string_view bytes);          // a byte that chooses, then a list of hosts or a flag

struct Target {
  const char* name;  // of its folder below tests/fuzz/corpus, and of its program, fuzz_NAME
  void (*run)(std::string_view bytes);
};
inline constexpr Target kTargets[] = {{"config", config},
                                      {"manifest", manifest},
                                      {"safetensors", safetensors},
                                      {"tokens", tokens},
                                      {"cache_entry", cache_entry},
                                      {"kernel_cache", kernel_cache},
                                      {"hf_config", hf_config},
                                      {"flight_record", flight_record},
                                      {"tokenizer", tokenizer},
                                      {"records", records},
                                      {"archive", archive},
                                      {"hosts", hosts},
                                      {"npy", npy},
                                      {"picture", picture},
                                      {"s3_answer", s3_answer},
                                      {"run_logs", run_logs},
                                      {"json", json}};

// Runs a reader; true when it answered, false when it threw the error of wrong input, whose text must be one
// that a person can be shown.
template <class Read>
bool answers(Read read) {
  try {
    read();
    return true;
  } catch (const UserError& error) {
    if (std::string_view(error.what()).empty()) throw InternalError("an error without words");
    return false;
  }
}

}  // namespace lockstep::fuzz

// A promise of a reader, for every input: the text that is printed reads back as the same thing, and the
// like.
#define FUZZ_CHECK(condition, ...) LS_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
