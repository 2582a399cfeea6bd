// The server and the proxy: started, waited for, ended.
#include "tests/support/s3_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "checkpoint/storage/s3/client.h"
#include "core/base/text.h"

namespace lockstep {

namespace {
std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_free(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool out = ::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  ::close(fd);
  return out;
}

// A process that ends with this one, its output in a file.
int started(std::vector<std::string> words, const std::string& log, const std::string& folder) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(out, 1), ::dup2(out, 2);
    ::setenv("HOME", folder.c_str(), 1);
    if (::chdir(folder.c_str()) == 0) ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out);
  return pid;
}
void end(int pid) {
  if (pid <= 0) return;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}
template <class Done>
bool within(double seconds, Done done) {
  for (double waited = 0; waited < seconds; waited += 0.05) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}
constexpr const char* kUsers = R"({"identities": [
  {"name": "writer", "credentials": [{"accessKey": "WRITER0KEY", "secretKey": "writer/secret+of=the test"}],
   "actions": ["Admin", "Read", "Write", "List", "Tagging"]},
  {"name": "reader", "credentials": [{"accessKey": "READER0KEY", "secretKey": "readersecret"}],
   "actions": ["Read", "List"]}]})";
}  // namespace

std::string S3Server::missing() {
  return ::access(S3_SERVER, X_OK) == 0
             ? ""
             : str("no S3 server (", S3_SERVER, "): scripts/install.sh --tests fetches one");
}

checkpoint::s3::Settings S3Server::settings() const {
  checkpoint::s3::Settings out;
  out.endpoint = endpoint_, out.region = "us-east-1";
  out.access_key = "WRITER0KEY", out.secret_key = "writer/secret+of=the test";
  out.patience_s = 20;
  return out;
}
checkpoint::s3::Settings S3Server::reader() const {
  auto out = settings();
  out.access_key = "READER0KEY", out.secret_key = "readersecret";
  return out;
}
void S3Server::export_settings() const {
  const auto mine = settings();
  for (const auto& [name, value] : {std::pair{"AWS_ENDPOINT_URL", mine.endpoint},
                                    {"AWS_REGION", mine.region},
                                    {"AWS_ACCESS_KEY_ID", mine.access_key},
                                    {"AWS_SECRET_ACCESS_KEY", mine.secret_key}})
    ::setenv(name, value.c_str(), 1);
}

// Eight ports from here on: master, volumes, filer and S3, each with one for its parts to talk.
bool S3Server::starts(int port) {
  for (int i = 0; i < 8; ++i)
    if (!is_free(port + i)) return false;
  auto flag = [&](const char* name, int more) { return str("-", name, "=", port + more); };
  pid_ = started({S3_SERVER,
                  "server",
                  "-ip=127.0.0.1",
                  "-ip.bind=127.0.0.1",
                  str("-dir=", folder_.path("data")),
                  "-s3",
                  str("-s3.config=", folder_.path("users.json")),
                  "-s3.iam=false",
                  "-s3.port.iceberg=0",
                  "-s3.port.lance=0",
                  "-master.telemetry=false",
                  "-master.volumeSizeLimitMB=64",
                  "-volume.max=40",
                  flag("master.port", 0),
                  flag("master.port.grpc", 1),
                  flag("volume.port", 2),
                  flag("volume.port.grpc", 3),
                  flag("filer.port", 4),
                  flag("filer.port.grpc", 5),
                  flag("s3.port", 6),
                  flag("s3.port.grpc", 7)},
                 folder_.path("log"), folder_.path(""));
  endpoint_ = str("http://127.0.0.1:", port + 6);
  auto patient = settings();
  patient.patience_s = 1;
  checkpoint::s3::Client client(patient);
  auto answers = [&] {
    try {
      return client.send({.what = "make", .method = "PUT", .at = {kBucket, ""}}).good();
    } catch (const std::exception&) { return false; }
  };
  auto gone = [&] { return ::waitpid(pid_, nullptr, WNOHANG) == pid_; };
  bool ended = false;
  if (within(60, [&] { return (ended = gone()) || answers(); }) && !ended) return true;
  if (ended) pid_ = 0;
  end(pid_);
  return false;
}

S3Server::S3Server() {
  folder_.write("users.json", kUsers);
  std::filesystem::create_directories(folder_.path("data"));
  std::random_device random;
  for (int tries = 0; tries < 5; ++tries)
    if (starts(20000 + static_cast<int>(random() % 12000))) return;
  throw std::runtime_error("the S3 server does not start: " + text_of(folder_.path("log")));
}
S3Server::~S3Server() { end(pid_); }

FaultyProxy::FaultyProxy(const std::string& to) {
  const std::string host = to.substr(to.find("://") + 3);
  pid_ = started({"python3", S3_PROXY, folder_.path(""), host}, folder_.path("log"), folder_.path(""));
  if (!within(30, [&] { return std::filesystem::exists(folder_.path("port")); }))
    throw std::runtime_error("the proxy does not start: " + text_of(folder_.path("log")));
  endpoint_ = "http://127.0.0.1:" + text_of(folder_.path("port"));
}
FaultyProxy::~FaultyProxy() { end(pid_); }
void FaultyProxy::breaks(const std::string& match, const std::string& does, int times) const {
  std::ofstream(folder_.path("breaks"), std::ios::app) << times << "\t" << match << "\t" << does << "\n";
}
int FaultyProxy::broken() const {
  const std::string text = text_of(folder_.path("broken"));
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace lockstep
