// RankServer: starts the PMIx server once per process; each attempt registers its ranks under its own
// namespace.
#include "launcher/supervise/run/rank_server.h"

#include <pmix.h>
#include <pmix_server.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "launcher/supervise/folders/mpi.h"
#include "launcher/supervise/launch/rank_limits.h"
#include "launcher/supervise/run/rank_door.h"

extern char** environ;

namespace lockstep::launcher {

namespace fs = std::filesystem;

// Maps a namespace, by which PMIx's thread names ranks, to the object that holds them.
class SaidToServer {
 public:
  static void know(const std::string& space, RankServer* server) {
    std::lock_guard lock(mutex());
    server ? void(servers()[space] = server) : void(servers().erase(space));
  }
  static void say(const pmix_proc_t& who, const std::string& text) {
    std::lock_guard lock(mutex());
    auto found = servers().find(who.nspace);
    if (found == servers().end() || who.rank >= found->second->words_.size()) return;
    std::lock_guard words(found->second->mutex_);
    found->second->words_[who.rank] += text;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex out;
    return out;
  }
  static std::map<std::string, RankServer*>& servers() {
    static std::map<std::string, RankServer*> out;
    return out;
  }
};

namespace {

// Waits for the result of an asynchronous PMIx call, which arrives on PMIx's thread.
class Answer {
 public:
  static void give(pmix_status_t status, void* self) {
    auto* answer = static_cast<Answer*>(self);
    std::lock_guard lock(answer->mutex_);
    answer->status_ = status, answer->there_ = true;
    answer->changed_.notify_all();
  }
  pmix_status_t wait(pmix_status_t called) {
    if (called != PMIX_SUCCESS) return called == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : called;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return there_; });
    return status_;
  }
  bool came_within(std::chrono::seconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return there_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool there_ = false;
  pmix_status_t status_ = PMIX_SUCCESS;
};

void check(pmix_status_t status, const char* what) {
  if (status != PMIX_SUCCESS)
    throw UserError(str(
        "the ranks cannot be connected: PMIx cannot ", what, ": ", PMIx_Error_string(status),
        "; look at `ulimit -n`, `ulimit -u` and at the space in /dev/shm, or use --nproc 1 or --simulate"));
}

// A PMIx list of named values.
class Infos {
 public:
  ~Infos() {
    for (auto& info : infos_) PMIX_INFO_DESTRUCT(&info);
  }
  Infos() = default;
  Infos(const Infos&) = delete;
  void add(const char* key, const std::string& text) { load(key, text.c_str(), PMIX_STRING); }
  void add(const char* key, uint32_t number) { load(key, &number, PMIX_UINT32); }
  void add_rank(const char* key, pmix_rank_t rank) { load(key, &rank, PMIX_PROC_RANK); }
  void add_short(const char* key, uint16_t number) { load(key, &number, PMIX_UINT16); }
  void add(const char* key, Infos& nested) {
    pmix_data_array_t array{PMIX_INFO, nested.size(), nested.data()};
    load(key, &array, PMIX_DATA_ARRAY);
  }
  pmix_info_t* data() { return infos_.data(); }
  size_t size() const { return infos_.size(); }

 private:
  void load(const char* key, const void* value, pmix_data_type_t type) {
    infos_.emplace_back();
    PMIX_INFO_CONSTRUCT(&infos_.back());
    PMIX_INFO_LOAD(&infos_.back(), key, value, type);
  }
  std::vector<pmix_info_t> infos_;
};

// Handlers for requests of ranks. All ranks are on this host, so a fence is complete when PMIx calls, with
// the data of all ranks.
pmix_status_t joined(const pmix_proc_t*, void* rank, pmix_op_cbfunc_t, void*) {
  if (rank) static_cast<RankServer::Rank*>(rank)->joined = true;
  return PMIX_OPERATION_SUCCEEDED;
}
pmix_status_t left(const pmix_proc_t*, void* rank, pmix_op_cbfunc_t, void*) {
  if (rank) static_cast<RankServer::Rank*>(rank)->left = true;
  return PMIX_OPERATION_SUCCEEDED;
}
pmix_status_t aborted(const pmix_proc_t*, void*, int, const char*, pmix_proc_t*, size_t, pmix_op_cbfunc_t,
                      void*) {
  return PMIX_OPERATION_SUCCEEDED;  // the rank exits with the given code, and only its exit counts
}
// Open MPI packs a message as file, topic and text. The text comes last: length (big-endian), bytes, a zero.
std::string last_text(const unsigned char* bytes, size_t size) {
  for (size_t at = 0; at + 4 < size; ++at) {
    const size_t length =
        size_t{bytes[at]} << 24 | size_t{bytes[at + 1]} << 16 | size_t{bytes[at + 2]} << 8 | bytes[at + 3];
    if (length == size - at - 4 && bytes[size - 1] == 0)
      return {reinterpret_cast<const char*>(bytes) + at + 4, length - 1};
  }
  return "";
}
void said(const pmix_proc_t* rank, const pmix_info_t data[], size_t count, const pmix_info_t*, size_t,
          pmix_op_cbfunc_t done, void* of) {
  for (size_t i = 0; i < count; ++i) {
    const pmix_value_t& value = data[i].value;
    if (value.type == PMIX_BYTE_OBJECT)
      SaidToServer::say(
          *rank, last_text(reinterpret_cast<const unsigned char*>(value.data.bo.bytes), value.data.bo.size));
    else if (value.type == PMIX_STRING && value.data.string)
      SaidToServer::say(*rank, str(value.data.string, "\n"));
  }
  // PMIx holds a lock that the answer needs too, so another thread answers.
  if (done) std::thread([done, of] { done(PMIX_SUCCESS, of); }).detach();
}
pmix_status_t fence(const pmix_proc_t*, size_t, const pmix_info_t*, size_t, char* data, size_t size,
                    pmix_modex_cbfunc_t done, void* of) {
  if (done) done(PMIX_SUCCESS, data, size, of, [](void* bytes) { std::free(bytes); }, data);
  return PMIX_SUCCESS;
}

// Started once and never finalized: PMIx_server_finalize waits for ranks that may be gone. The folder is
// removed with the process.
class Server {
 public:
  // The first attempt of a process has the most ranks.
  static Server& here(int64_t nproc) {
    static Server server(shared_bytes(nproc));
    return server;
  }
  std::string new_folder() {
    std::string path = str(folder_.path(), "/", ++folders_);
    std::error_code failed;
    fs::create_directory(path, failed);
    if (failed) throw UserError(str("cannot make ", path, ": ", failed.message()));
    return path;
  }

 private:
  explicit Server(int64_t shared) : folder_(shared) {
    // Variables of an outer launcher do not apply to a server.
    std::vector<std::string> outer;
    for (char** entry = environ; *entry; ++entry)
      if (std::strncmp(*entry, "PMIX_", 5) == 0) outer.emplace_back(*entry, std::strcspn(*entry, "="));
    for (const auto& name : outer) unsetenv(name.c_str());
    setenv("PMIX_MCA_gds", "hash", 1);  // exchanges values in messages, not in files
    static pmix_server_module_t answers = [] {
      pmix_server_module_t out;
      std::memset(&out, 0, sizeof out);
      out.client_connected = joined, out.client_finalized = left, out.abort = aborted, out.fence_nb = fence,
      out.log = said;
      return out;
    }();
    Infos infos;
    infos.add(PMIX_SERVER_TMPDIR, folder_.path());
    infos.add(PMIX_SYSTEM_TMPDIR, folder_.path());
    const std::vector<int> inherited = listeners();
    check(PMIx_server_init(&answers, infos.data(), infos.size()), "start its server");
    guard_listeners(inherited);
  }
  MpiFolder folder_;
  int folders_ = 0;
};

std::string random_name() {
  std::random_device random;
  char text[33];
  std::snprintf(text, sizeof text, "%08x%08x%08x%08x", random(), random(), random(), random());
  return str("lockstep-", text);
}

std::string regex_of(pmix_status_t (*make)(const char*, char**), const std::string& words) {
  char* out = nullptr;
  check(make(words.c_str(), &out), "describe the ranks");
  std::string text = out;
  std::free(out);
  return text;
}

}  // namespace

RankServer::RankServer(int64_t nproc)
    : space_(random_name()), folder_(Server::here(nproc).new_folder()), ranks_(nproc), words_(ranks_.size()) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const auto n = static_cast<uint32_t>(nproc);
  std::string all;
  for (uint32_t rank = 0; rank < n; ++rank) all += str(rank ? "," : "", rank);
  Infos infos;
  for (const char* key : {PMIX_UNIV_SIZE, PMIX_JOB_SIZE, PMIX_LOCAL_SIZE, PMIX_NODE_SIZE, PMIX_MAX_PROCS})
    infos.add(key, n);
  for (const char* key : {PMIX_NUM_NODES, PMIX_JOB_NUM_APPS}) infos.add(key, uint32_t{1});
  for (const char* key : {PMIX_APPNUM, PMIX_NODEID}) infos.add(key, uint32_t{0});
  infos.add_rank(PMIX_LOCALLDR, 0);
  infos.add(PMIX_NODE_MAP, regex_of(PMIx_generate_regex, host));
  infos.add(PMIX_PROC_MAP, regex_of(PMIx_generate_ppn, all));
  infos.add(PMIX_LOCAL_PEERS, all);
  infos.add(PMIX_JOBID, space_);
  infos.add(PMIX_NSDIR, folder_);
  infos.add(PMIX_TMPDIR, folder_);
  for (uint32_t rank = 0; rank < n; ++rank) {
    Infos of_rank;
    of_rank.add_rank(PMIX_RANK, rank);
    of_rank.add_rank(PMIX_GLOBAL_RANK, rank);
    for (const char* key : {PMIX_LOCAL_RANK, PMIX_NODE_RANK})
      of_rank.add_short(key, static_cast<uint16_t>(rank));
    for (const char* key : {PMIX_NODEID, PMIX_APPNUM}) of_rank.add(key, uint32_t{0});
    of_rank.add(PMIX_HOSTNAME, std::string(host));
    infos.add(PMIX_PROC_DATA, of_rank);
  }
  Answer registered;
  check(registered.wait(PMIx_server_register_nspace(space_.c_str(), static_cast<int>(n), infos.data(),
                                                    infos.size(), Answer::give, &registered)),
        "register the ranks");
  for (uint32_t rank = 0; rank < n; ++rank) {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, space_.c_str(), rank);
    Answer known;
    check(known.wait(
              PMIx_server_register_client(&proc, geteuid(), getegid(), &ranks_[rank], Answer::give, &known)),
          "register a rank");
  }
  SaidToServer::know(space_, this);
}

RankServer::~RankServer() {
  SaidToServer::know(space_, nullptr);
  auto forgotten = std::make_unique<Answer>();
  PMIx_server_deregister_nspace(space_.c_str(), Answer::give, forgotten.get());
  // The ranks' objects are not used afterwards. If PMIx hangs, this does not wait for it, and they are kept
  // until the process ends.
  if (!forgotten->came_within(std::chrono::seconds(2))) {
    static auto& kept = *new std::vector<std::pair<std::unique_ptr<Answer>, std::vector<Rank>>>();
    kept.emplace_back(std::move(forgotten), std::move(ranks_));
  }
  remove_mpi_folder(folder_);  // leftovers are reported with the process's folder
}

std::string RankServer::words(int64_t rank) {
  std::lock_guard lock(mutex_);
  return std::exchange(words_[rank], {});
}

std::vector<std::pair<std::string, std::string>> RankServer::variables(int64_t rank) const {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, space_.c_str(), static_cast<pmix_rank_t>(rank));
  char** made = nullptr;
  check(PMIx_server_setup_fork(&proc, &made), "tell a rank where it is");
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = made; entry && *entry; ++entry) {
    const std::string word = *entry;
    const size_t equal = word.find('=');
    out.emplace_back(word.substr(0, equal), word.substr(equal + 1));
    std::free(*entry);
  }
  std::free(made);
  out.emplace_back("OMPI_MCA_btl_vader_backing_directory", folder_);
  return out;
}

}  // namespace lockstep::launcher
