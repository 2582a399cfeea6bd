// S3Storage: implements Storage with S3 requests.
#include "checkpoint/storage/s3/s3_storage.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>

#include "checkpoint/storage/s3/lock.h"
#include "checkpoint/storage/s3/upload.h"
#include "checkpoint/storage/s3/words.h"
#include "checkpoint/storage/s3/xml.h"
#include "core/base/log.h"
#include "core/reading/one_line.h"
#include "core/reading/whole_number.h"

namespace lockstep::checkpoint::s3 {

namespace {
Address object_of(const std::string& path) {
  Address out = address_of(path);
  if (out.key.empty()) throw UserError(str(path, " is a bucket; name an object in it"));
  return out;
}

class ObjectIn : public InFile {
 public:
  ObjectIn(Client& client, Address at, int64_t bytes, std::string etag)
      : client_(client), at_(std::move(at)), bytes_(bytes), etag_(std::move(etag)) {}
  int64_t bytes() const override { return bytes_; }
  void read(int64_t offset, void* out, size_t bytes) const override {
    if (bytes == 0) return;
    const std::string range = str("bytes=", offset, "-", offset + static_cast<int64_t>(bytes) - 1);
    const std::string path = path_of(at_);
    auto ends = [&] {
      return StorageError(
          str("cannot read ", path, ", ", bytes, " bytes at offset ", offset, ": the object ends there"),
          path, EIO);
    };
    if (offset + static_cast<int64_t>(bytes) > bytes_) throw ends();
    const Response got = client_.must({.what = "read",
                                       .method = "GET",
                                       .at = at_,
                                       .headers = {"range: " + range, "if-match: " + etag_},
                                       .into = static_cast<std::byte*>(out),
                                       .into_bytes = bytes});
    if (got.bytes != bytes) throw ends();
  }

 private:
  Client& client_;
  const Address at_;
  const int64_t bytes_;
  const std::string etag_;
};

// The keys below a prefix, page by page; with `delimiter` "/", folders appear once, by their first part.
struct Page {
  std::vector<std::string> keys, folders;
  std::string next;
};
Page page_of(Client& client, const Address& prefix, const std::string& delimiter, int64_t most,
             const std::string& from) {
  std::map<std::string, std::string> query{
      {"list-type", "2"}, {"prefix", prefix.key}, {"max-keys", str(most)}};
  if (!delimiter.empty()) query["delimiter"] = delimiter;
  if (!from.empty()) query["continuation-token"] = from;
  const Response got =
      client.must({.what = "list", .method = "GET", .at = {prefix.bucket, ""}, .query = query});
  Page out;
  const Element root = parse(got.body, path_of(prefix));
  if (root.name != "ListBucketResult")
    throw StorageError(str("cannot list ", path_of(prefix), ": the answer is no list; is ",
                           client.settings().endpoint_words(), " an S3 store?"),
                       path_of(prefix), EIO);
  for (const Element& child : root.children) {
    if (child.name == "Contents") out.keys.push_back(child.text_of("Key"));
    if (child.name == "CommonPrefixes") out.folders.push_back(child.text_of("Prefix"));
  }
  if (root.text_of("IsTruncated") == "true") out.next = root.text_of("NextContinuationToken");
  return out;
}
constexpr int64_t kPage = 1000, kMostPages = 10000;
}  // namespace

std::unique_ptr<OutFile> S3Storage::create(const std::string& path) {
  return std::make_unique<Upload>(client_, object_of(path));
}

std::unique_ptr<InFile> S3Storage::open(const std::string& path) {
  const Address at = object_of(path);
  const Request request{.what = "open", .method = "HEAD", .at = at};
  const Response there = client_.send(request);
  if (!there.good()) {
    page_of(client_, at, "", 1, "");  // an answer to HEAD has no body: a listing reports the actual error
    throw refusal(request, there, client_.settings());
  }
  const auto bytes = whole_number(there.header("content-length"));
  if (!bytes || *bytes < 0)
    throw StorageError(str("cannot open ", path, ": its length is \"",
                           shortened(one_line(there.header("content-length")), 40),
                           "\", and bytes are counted from 0 to 2^63 - 1; is ",
                           client_.settings().endpoint_words(), " an S3 store?"),
                       path, EIO);
  return std::make_unique<ObjectIn>(client_, at, *bytes, there.header("etag"));
}

bool S3Storage::exists(const std::string& path) {
  const Address at = address_of(path);
  const Page first = page_of(client_, at, "", 1, "");
  if (at.key.empty()) return true;  // a bucket that can be listed
  if (!first.keys.empty() && first.keys[0] == at.key) return true;
  const Page below = page_of(client_, {at.bucket, at.key + "/"}, "", 1, "");
  return !below.keys.empty();
}

std::vector<FolderEntry> S3Storage::list(const std::string& folder) {
  const Address at = address_of(folder);
  const Address prefix{at.bucket, at.key.empty() ? "" : at.key + "/"};
  std::vector<FolderEntry> out;
  auto add = [&](const std::string& key, bool is_folder) {
    std::string name = key.substr(std::min(key.size(), prefix.key.size()));
    if (is_folder && name.ends_with('/')) name.pop_back();
    if (!name.empty()) out.push_back({name, is_folder});
  };
  const auto began = std::chrono::steady_clock::now();
  const std::chrono::duration<double> deadline(4 * std::max(client_.settings().patience_s, 15.0));
  std::set<std::string> seen;
  auto no_end = [&](const std::string& why) {
    throw StorageError(
        str("cannot list ", folder, ": ", why, "; is ", client_.settings().endpoint_words(), " an S3 store?"),
        folder, EIO);
  };
  std::string next;
  do {
    const Page page = page_of(client_, prefix, "/", kPage, next);
    for (const auto& key : page.keys) add(key, false);
    for (const auto& key : page.folders) add(key, true);
    next = page.next;
    if (next.empty()) break;
    if (page.keys.empty() && page.folders.empty()) no_end("a page that is not the last one has no key");
    if (!seen.insert(next).second) no_end("its pages go round: the same continuation token came again");
    if (std::chrono::steady_clock::now() - began > deadline)
      no_end(str(seen.size(), " pages in ", number_text(deadline.count()), " s, and no last one"));
  } while (std::ssize(seen) <= kMostPages);
  if (!next.empty()) no_end(str("more than ", kMostPages, " pages of ", kPage, " keys"));
  if (out.empty()) throw StorageError(str("cannot list ", folder, ": nothing lies there"), folder, ENOENT);
  std::sort(out.begin(), out.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return out;
}

void S3Storage::remove(const std::string& path) {
  client_.must({.what = "remove", .method = "DELETE", .at = object_of(path)});
}

// A failure here only wastes space in the store.
void S3Storage::give_up_uploads(const Address& folder) try {
  const Response got = client_.must({.what = "list unfinished uploads of",
                                     .method = "GET",
                                     .at = {folder.bucket, ""},
                                     .query = {{"prefix", folder.key + "/"}, {"uploads", ""}}});
  const Element root = parse(got.body, path_of(folder));
  if (root.name != "ListMultipartUploadsResult") return;
  for (const Element& child : root.children)
    if (child.name == "Upload")
      client_.send({.what = "give up",
                    .method = "DELETE",
                    .at = {folder.bucket, child.text_of("Key")},
                    .query = {{"uploadId", child.text_of("UploadId")}}});
} catch (const StorageError& error) {
  logs::topic("checkpoint", str("unfinished uploads stay: ", error.what()));
}

std::shared_ptr<FolderLock> S3Storage::lock(const std::string& folder) {
  std::lock_guard<std::mutex> hold(guard_);
  const Address at = object_of(folder + "/.lock");
  auto& slot = held_[path_of(at)];
  if (auto mine = slot.lock()) return mine;
  std::shared_ptr<FolderLock> mine = take_lock(client_, at, folder);
  give_up_uploads(object_of(folder));
  slot = mine;
  return mine;
}

}  // namespace lockstep::checkpoint::s3
