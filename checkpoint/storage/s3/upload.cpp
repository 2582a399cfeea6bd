// S3 uploads: one PUT, or a multipart upload.
#include "checkpoint/storage/s3/upload.h"

#include <algorithm>
#include <cerrno>

#include "checkpoint/storage/s3/words.h"
#include "checkpoint/storage/s3/xml.h"

namespace lockstep::checkpoint::s3 {

namespace {
std::string put_part(Client& client, const Address& at, const std::string& id, size_t number,
                     const std::string& bytes) {
  const Response done = client.must({.what = "write",
                                     .method = "PUT",
                                     .at = at,
                                     .query = {{"partNumber", str(number)}, {"uploadId", id}},
                                     .body = bytes});
  return done.header("etag");
}
}  // namespace

Upload::~Upload() {
  for (auto& part : under_way_) part.wait();
  if (closed_ || id_.empty()) return;
  try {
    client_.send({.what = "give up", .method = "DELETE", .at = at_, .query = {{"uploadId", id_}}});
  } catch (const std::exception&) {}  // the next holder of the lock aborts it
}

// The part size grows by the basic size every 1000 parts: with 16 MiB, ten thousand parts hold 0.84 TiB.
size_t Upload::part_bytes() const {
  return client_.settings().part_bytes * (1 + (etags_.size() + under_way_.size()) / 1000);
}

void Upload::write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    if (part_.size() == part_bytes()) start_part();
    if (part_.capacity() < part_bytes() && written_ > 0) part_.reserve(part_bytes());
    const size_t n = std::min(bytes, part_bytes() - part_.size());
    part_.append(from, n);
    from += n, bytes -= n, written_ += static_cast<int64_t>(n);
  }
}

void Upload::begin() {
  const Response begun =
      client_.must({.what = "write", .method = "POST", .at = at_, .query = {{"uploads", ""}}});
  const Element root = parse(begun.body, path_of(at_));
  if (root.name == "InitiateMultipartUploadResult") id_ = root.text_of("UploadId");
  if (id_.empty())
    throw StorageError(str("cannot write ", path_of(at_), ": ", client_.settings().endpoint_words(),
                           " begins no upload in parts; checkpoints want a store that has them"),
                       path_of(at_), EIO);
}

void Upload::wait_for_oldest() {
  auto oldest = std::move(under_way_.front());
  under_way_.pop_front();
  etags_.push_back(oldest.get());
}

void Upload::start_part() {
  if (id_.empty()) begin();
  if (under_way_.size() == kSideBySide) wait_for_oldest();
  const size_t number = etags_.size() + under_way_.size() + 1;
  under_way_.push_back(std::async(std::launch::async, [this, number, bytes = std::move(part_)] {
    return put_part(client_, at_, id_, number, bytes);
  }));
  part_ = {};
}

void Upload::complete() {
  std::string list = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < etags_.size(); ++i)
    list += str("<Part><PartNumber>", i + 1, "</PartNumber><ETag>", etags_[i], "</ETag></Part>");
  list += "</CompleteMultipartUpload>";
  const Request request{.what = "write",
                        .method = "POST",
                        .at = at_,
                        .query = {{"uploadId", id_}},
                        .headers = {"content-type: application/xml"},
                        .body = list};
  // A retried request may find the upload completed by the first try. Then the object exists with the right
  // size.
  Response done = client_.send(request);
  if (done.good() && done.code().empty()) return;
  if (done.code() == "NoSuchUpload") {  // the answer to the first try was lost
    const Response there = client_.send({.what = "look at", .method = "HEAD", .at = at_});
    if (there.good() && there.header("content-length") == str(written_)) return;
  }
  if (done.good()) done.status = 500;  // an error with a success status
  throw refusal(request, done, client_.settings());
}

void Upload::close() {
  if (id_.empty()) {
    client_.must({.what = "write", .method = "PUT", .at = at_, .body = part_});
  } else {
    if (!part_.empty()) start_part();
    while (!under_way_.empty()) wait_for_oldest();
    complete();
  }
  closed_ = true;
}

}  // namespace lockstep::checkpoint::s3
