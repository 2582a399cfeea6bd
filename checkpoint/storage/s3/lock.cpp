// The S3 lock: its text, its renewal, and the takeover of a dead holder's lock.
#include "checkpoint/storage/s3/lock.h"

#include <curl/curl.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "checkpoint/storage/s3/words.h"
#include "core/base/log.h"
#include "core/base/steady_seconds.h"

namespace lockstep::checkpoint::s3 {

namespace {
// Start time of a process of this machine, in ticks; "" when no process has this id.
std::string start_of(int64_t pid) {
  std::ifstream file(str("/proc/", pid, "/stat"));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "";
  const auto words = split(trim(text.substr(name_end + 1)), ' ');
  return words.size() > 19 ? words[19] : "";
}

// Boot id and PID namespace of this machine: if two are equal, their process ids can be compared.
std::string machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::error_code unknown;
  return str(boot, " ", std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string());
}

// "process 7 on HOST", then data to check whether it is alive, then a unique number.
std::string lock_text() {
  char host[128] = "";
  ::gethostname(host, sizeof host - 1);
  return str("process ", ::getpid(), " on ", host, "\n", machine(), "\n", ::getpid(), " ",
             start_of(::getpid()), "\n", randombytes_random(), randombytes_random(), "\n");
}
std::string holder_of(const std::string& text) {
  const std::string line = split(text, '\n')[0];
  return line.empty() ? "another process" : shortened(printable(line), 160);
}
bool has_ended(const std::string& text) {
  const auto lines = split(text, '\n');
  if (lines.size() < 4 || lines[1] != machine()) return false;
  const auto words = split(lines[2], ' ');
  int64_t pid = 0;
  for (char c : words[0]) {
    if (c < '0' || c > '9' || pid > 1 << 30) return false;
    pid = pid * 10 + (c - '0');
  }
  return words.size() == 2 && pid > 0 && start_of(pid) != words[1];
}

// Seconds since the object was written, by the store's clock.
double age_of(const Response& got) {
  const time_t then = curl_getdate(got.header("last-modified").c_str(), nullptr),
               is = curl_getdate(got.header("date").c_str(), nullptr);
  return then < 0 || is < 0 ? 0 : static_cast<double>(is - then);
}

class HeldObject : public FolderLock {
 public:
  HeldObject(Client& client, Address at, std::string text, std::string etag)
      : client_(client),
        at_(std::move(at)),
        text_(std::move(text)),
        etag_(std::move(etag)),
        renewed_(steady_seconds()) {
    thread_ = std::thread([this] { renew(); });
  }
  ~HeldObject() override {
    {
      std::lock_guard<std::mutex> hold(guard_);
      over_ = true;
    }
    wake_.notify_all();
    thread_.join();
    if (lost_) return;
    try {
      client_.send({.what = "remove", .method = "DELETE", .at = at_, .headers = {"if-match: " + etag_}});
    } catch (const std::exception&) {}  // it expires with its lease
  }
  void check() const override {
    const double lease = client_.settings().lease_s;
    if (!lost_ && steady_seconds() - renewed_ < lease) return;
    throw StorageError(
        str("the lock ", path_of(at_), " is no longer this run's: ",
            lost_ ? "another process took it" : str("it could not be renewed for ", number_text(lease), " s"),
            "; nothing more is written there. Stop one of the two, or choose another --name"),
        path_of(at_), EWOULDBLOCK);
  }

 private:
  void renew() {
    std::unique_lock<std::mutex> hold(guard_);
    const std::chrono::duration<double> period(client_.settings().lease_s / 4);
    int64_t renewals = 0;
    while (!wake_.wait_for(hold, period, [this] { return over_; })) {
      hold.unlock();
      try {
        const std::string text = str(text_, "renewed ", ++renewals, "\n");  // a new text gives a new ETag
        const Response put = client_.send(
            {.what = "renew", .method = "PUT", .at = at_, .headers = {"if-match: " + etag_}, .body = text});
        if (put.good())
          etag_ = put.header("etag"), renewed_ = steady_seconds();
        else if ((put.status == 412 || put.status == 404) && !still_mine())
          lost_ = true;
      } catch (const StorageError&) {}  // check() says when it is too old
      hold.lock();
      if (lost_) return;
    }
  }
  // The answer to a renewal may have been lost, and a second one refused.
  bool still_mine() {
    const Response got = client_.send({.what = "read", .method = "GET", .at = at_});
    if (!got.good() || !got.body.starts_with(text_)) return false;
    etag_ = got.header("etag"), renewed_ = steady_seconds();
    return true;
  }

  Client& client_;
  const Address at_;
  const std::string text_;  // the object's first bytes, unique to this lock
  std::string etag_;        // owned by the renewing thread while it runs
  std::atomic<double> renewed_;
  std::atomic<bool> lost_ = false;
  std::mutex guard_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

std::unique_ptr<FolderLock> held_by_me(Client& client, const Address& at, const std::string& text,
                                       const Response& put) {
  return std::make_unique<HeldObject>(client, at, text, put.header("etag"));
}
}  // namespace

std::unique_ptr<FolderLock> take_lock(Client& client, const Address& at, const std::string& folder) {
  const std::string mine = lock_text();
  const double lease = client.settings().lease_s;
  std::string seen;  // the ETag of the lock being waited for
  auto write = [&](const std::string& condition) {
    return Request{.what = "lock", .method = "PUT", .at = at, .headers = {condition}, .body = mine};
  };
  for (double rest = 0.2;; rest = std::min(2 * rest, lease / 8)) {
    const Request request = write("if-none-match: *");
    const Response put = client.send(request);
    if (put.good()) return held_by_me(client, at, mine, put);
    if (put.status != 412 && put.status != 409) throw refusal(request, put, client.settings());
    const Response there = client.send({.what = "read", .method = "GET", .at = at});
    if (there.status == 404) continue;  // released during the wait
    if (!there.good()) throw refusal({.what = "read", .method = "GET", .at = at}, there, client.settings());
    const std::string tag = there.header("etag");
    if (there.body.starts_with(mine)) return held_by_me(client, at, mine, there);  // the answer was lost
    if (has_ended(there.body) || age_of(there) > lease) {
      const Response taken = client.send(write("if-match: " + tag));
      if (taken.good()) {
        logs::warn(str(folder, ": the lock of ", holder_of(there.body), ", which has ended, is taken over"));
        return held_by_me(client, at, mine, taken);
      }
      continue;
    }
    if (!seen.empty() && tag != seen)
      throw StorageError(
          str("checkpoint folder ", folder, " is in use by ", holder_of(there.body),
              "; two jobs never write one folder: wait for it, stop it, or choose another --name"),
          path_of(at), EWOULDBLOCK);
    if (seen.empty())
      logs::info(str("waiting for ", folder, ": ", holder_of(there.body), " has its lock, which ends within ",
                     number_text(lease), " s where that process is gone"));
    seen = tag;
    std::this_thread::sleep_for(std::chrono::duration<double>(rest));
  }
}

}  // namespace lockstep::checkpoint::s3
