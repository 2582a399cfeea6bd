// Fuzz target: what an object store answers: XML, and the words of an error.
#include "checkpoint/storage/s3/request.h"
#include "checkpoint/storage/s3/xml.h"
#include "checkpoint/storage/storage.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

void s3_answer(std::string_view bytes) {
  using namespace checkpoint;
  s3::Response response{.status = 400, .body = std::string(bytes)};
  response.code(), response.message();
  try {
    const s3::Element root = s3::parse(response.body, "s3://bucket/key");
    FUZZ_CHECK(!root.name.empty());
    for (const auto& child : root.children) child.text_of("Key");
  } catch (const StorageError& error) {
    FUZZ_CHECK(std::string_view(error.what()).find("s3://") != std::string::npos);
  }
}

}  // namespace lockstep::fuzz
