// Who gets in over TCP and who does not, each refusal with a reason in the controller's log.
#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "agent/link/grpc_link.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/grpc_status.h"
#include "common/wire/version.h"
#include "controller/service/controller_server.h"
#include "muster/v1/agent_link.grpc.pb.h"
#include "tests/support/certs.h"

namespace muster::test {
namespace {

constexpr Nanos kPatience = 60 * kSecond;

template <typename Done>
bool Eventually(Done done) {
  const Nanos until = SteadyClock::Get().Now() + kPatience;
  while (SteadyClock::Get().Now() < until) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return done();
}

// What this process logs, in a file, while it lives.
class LogFile {
 public:
  explicit LogFile(const std::string& path) : path_(path), before_(dup(2)) {
    static const bool once = [] {
      InitLogging("controller", LogLevel::kInfo);
      return true;
    }();
    (void)once;
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0);
    dup2(fd, 2);
    close(fd);
  }
  ~LogFile() {
    dup2(before_, 2);
    close(before_);
  }
  bool Says(const std::string& text) const {
    return Eventually([&] { return ReadAll(path_).find(text) != std::string::npos; });
  }

 private:
  const std::string path_;
  const int before_;
};

struct Rig {
  Certs certs;
  LogFile log{certs.dir.path() + "/log"};
  std::unique_ptr<ControllerServer> server;
  std::string address;
  std::atomic<int> cancel{0};

  explicit Rig(bool insecure = false) {
    ServerOptions options{.listen = {.socket_path = "", .tcp = {*ParseEndpoint("127.0.0.1:0")}}};
    if (insecure) {
      options.listen.insecure_tcp = true;
    } else {
      options.listen.tls = certs.Of("controller");
    }
    auto listening = ControllerServer::Listen(options);
    INFO(FormatError(listening.status()));
    REQUIRE(listening.ok());
    server = std::move(*listening);
    address = server->Listening().at(0).Text();
  }

  std::shared_ptr<grpc::Channel> Channel(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetSslTargetNameOverride(kControllerName);
    return grpc::CreateCustomChannel("ipv4:" + address, credentials, arguments);
  }
  // As the named certificate's holder, past the checks that a real agent makes of its own files.
  std::shared_ptr<grpc::Channel> As(const std::string& name, const std::string& ca = "") {
    const TlsFiles files = certs.Of(name);
    return Channel(
        grpc::SslCredentials({ReadAll(ca.empty() ? files.ca : ca), ReadAll(files.key), ReadAll(files.cert)}));
  }

  struct Answer {
    grpc::Status status;
    v1::HelloReply reply;
    std::string code() const {
      if (reply.has_error()) return reply.error().code();
      return status.ok() ? "" : GetErrorInfo(FromGrpc(status)).code;
    }
  };
  Answer SayHello(const std::shared_ptr<grpc::Channel>& channel, const std::string& id) {
    auto stub = v1::AgentLink::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    auto stream = stub->Control(&context);
    v1::AgentMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_api_min(kApiMin);
    hello.set_api_max(kApiMax);
    hello.set_agent_id(id);
    hello.set_instance(7);
    hello.set_hostname("h");
    hello.set_boot_id("b");
    stream->Write(message);
    v1::ControllerMessage back;
    Answer answer;
    if (stream->Read(&back)) {
      answer.reply = back.hello_reply();
      if (!answer.reply.has_error()) context.TryCancel();
    }
    answer.status = stream->Finish();
    if (back.has_hello_reply() && !answer.reply.has_error()) answer.status = grpc::Status::OK;
    return answer;
  }
};

}  // namespace

TEST_CASE("an agent gets in by its own certificate and under its own name") {
  Rig rig;
  CHECK(rig.SayHello(rig.As("agent-a1"), "a1").code().empty());
  CHECK(rig.SayHello(rig.As("agent-a1"), "a2").code() == "AGENT_ID_CERTIFIED");
  CHECK(rig.log.Says("AGENT_ID_CERTIFIED"));
  CHECK(rig.SayHello(rig.As("agent-a2"), "a2").code().empty());
}

TEST_CASE("users, nobody and strangers may not be agents") {
  Rig rig;
  CHECK(rig.SayHello(rig.As("user-alice"), "a1").code() == "ROLE_MISSING");
  CHECK(rig.log.Says("operator alice may not"));
  CHECK(rig.SayHello(rig.As("user-bob"), "a1").code() == "ROLE_MISSING");

  // TLS, the right authority, no certificate.
  const auto nobody = rig.Channel(grpc::SslCredentials({ReadAll(rig.certs.Of("").ca), "", ""}));
  CHECK(rig.SayHello(nobody, "a1").code() == "CERTIFICATE_NEEDED");
  CHECK(rig.log.Says("CERTIFICATE_NEEDED"));

  // A certificate of another authority; the stranger believes our server.
  const Certs others;
  const TlsFiles theirs = others.Of("agent-a1");
  const auto stranger =
      rig.Channel(grpc::SslCredentials({ReadAll(rig.certs.Of("").ca), ReadAll(theirs.key), ReadAll(theirs.cert)}));
  CHECK(!rig.SayHello(stranger, "a1").status.ok());
  CHECK(rig.log.Says(" refused: "));
  // The link of the true one goes on.
  CHECK(rig.SayHello(rig.As("agent-a1"), "a1").code().empty());
}

TEST_CASE("an expired certificate is refused by the controller and by its owner") {
  Rig rig;
  CHECK(!rig.SayHello(rig.As("agent-old"), "old").status.ok());
  CHECK(rig.log.Says(" refused: "));
  const auto own = LoadTls(rig.certs.Of("agent-old"), TlsUse::kAgent, WallMicros() / 1'000'000);
  CHECK(GetErrorInfo(own.status()).code == "TLS_CERT_EXPIRED");
}

TEST_CASE("what is in no table is refused, registered or not") {
  Rig rig;
  for (const char* method : {"/muster.v1.AgentLink/Nothing", "/grpc.reflection.v1alpha.ServerReflection/Info", "/x"}) {
    INFO(method);
    grpc::GenericStub stub(rig.As("user-alice"));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    grpc::CompletionQueue queue;
    grpc::ByteBuffer empty, answer;
    grpc::Status status;
    auto call = stub.PrepareUnaryCall(&context, method, empty, &queue);
    call->StartCall();
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
    CHECK(GetErrorInfo(FromGrpc(status)).code == "METHOD_UNLISTED");
    CHECK(rig.log.Says(std::string(method) + ": operator alice called what nobody may call"));
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
  }
}

TEST_CASE("plain text on the TLS port is refused and logged") {
  Rig rig;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{.sin_family = AF_INET,
                 .sin_port = htons(rig.server->Listening().at(0).port),
                 .sin_addr = {htonl(INADDR_LOOPBACK)}};
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  const timeval patience{.tv_sec = 30, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const std::string text = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  REQUIRE(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  char buffer[256];
  ssize_t got = 1;
  for (int i = 0; i < 100 && got > 0; ++i) got = read(fd, buffer, sizeof(buffer));
  CHECK((got == 0 || errno == ECONNRESET));
  close(fd);
  CHECK(rig.log.Says(" refused: "));
  // An agent without TLS, too.
  CHECK(
      !rig.SayHello(grpc::CreateChannel("ipv4:" + rig.address, grpc::InsecureChannelCredentials()), "a1").status.ok());
}

TEST_CASE("a message of a gigabyte is refused, others are served on") {
  Rig rig;
  grpc::GenericStub stub(rig.As("agent-a1"));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(50));
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(&context, "/muster.v1.AgentLink/Control", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  REQUIRE(queue.Next(&tag, &ok));
  REQUIRE(ok);
  // One slice, many times: it is large on the wire only.
  const grpc::Slice slice(std::string(16 << 20, 'x'));
  const std::vector<grpc::Slice> many(64, slice);
  call->Write(grpc::ByteBuffer(many.data(), many.size()), nullptr);
  REQUIRE(queue.Next(&tag, &ok));
  grpc::Status status;
  call->Finish(&status, nullptr);
  REQUIRE(queue.Next(&tag, &ok));
  // By its size, or, as soon as more has come than any message may have, with its connection.
  CHECK((status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
         status.error_code() == grpc::StatusCode::UNAVAILABLE));
  CHECK(rig.log.Says("[MESSAGE_TOO_LARGE]"));
  CHECK(rig.log.Says("before its Hello"));
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  CHECK(rig.SayHello(rig.As("agent-a2"), "a2").code().empty());
}

namespace {

class Losses final : public agent::LinkListener {
 public:
  void OnMessage(uint64_t, uint64_t, agent::ControllerSays, Nanos) override { greeted = true; }
  void OnBadMessage(uint64_t, uint64_t, PhaseKey, absl::Status) override {}
  void OnAck(uint64_t, uint64_t, absl::Status) override {}
  void OnLost(uint64_t, absl::Status why) override {
    std::lock_guard lock(mutex_);
    why_ = FormatError(why);
  }
  std::string why() {
    std::lock_guard lock(mutex_);
    return why_;
  }
  std::atomic<bool> greeted{false};

 private:
  std::mutex mutex_;
  std::string why_;
};

agent::Hello HelloOf(const std::string& id) {
  return {.api_min = kApiMin,
          .api_max = kApiMax,
          .build = "b",
          .agent_id = id,
          .instance = 3,
          .boot_id = "b",
          .hostname = "h"};
}

}  // namespace

TEST_CASE("an agent believes nobody but the controller of its authority") {
  const Certs certs, others;
  const auto serve = [](const TlsFiles& files, int& port) {
    grpc::SslServerCredentialsOptions options(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    options.pem_root_certs = ReadAll(files.ca);
    options.pem_key_cert_pairs.push_back({ReadAll(files.key), ReadAll(files.cert)});
    static v1::AgentLink::Service service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port);
    builder.RegisterService(&service);
    return builder.BuildAndStart();
  };
  // An agent's certificate used as a server's, a controller of another authority.
  for (const TlsFiles& files : {certs.Of("agent-a2"), others.Of("controller")}) {
    INFO(files.cert);
    int port = 0;
    const auto rogue = serve(files, port);
    REQUIRE(rogue != nullptr);
    Losses losses;
    auto link = agent::MakeGrpcLink(
        {.endpoint = *ParseEndpoint("127.0.0.1:" + std::to_string(port)), .tls = certs.Of("agent-a1")},
        SteadyClock::Get(), losses);
    link->Dial(1, HelloOf("a1"));
    CHECK(Eventually([&] { return !losses.why().empty(); }));
    CHECK(!losses.greeted);
    CHECK_THAT(losses.why(), Catch::Contains("127.0.0.1:" + std::to_string(port)));
    link.reset();
    rogue->Shutdown(std::chrono::system_clock::now());
  }
}

TEST_CASE("a real link over TLS is greeted; a file that goes bad is said at the next dial") {
  Rig rig;
  Losses losses;
  auto link = agent::MakeGrpcLink({.endpoint = *ParseEndpoint(rig.address), .tls = rig.certs.Of("agent-a1")},
                                  SteadyClock::Get(), losses);
  link->Dial(1, HelloOf("a1"));
  CHECK(Eventually([&] { return losses.greeted.load(); }));
  INFO(losses.why());
  link->Close();
  REQUIRE(unlink(rig.certs.Of("agent-a1").key.c_str()) == 0);
  link->Dial(2, HelloOf("a1"));
  CHECK(Eventually([&] { return !losses.why().empty(); }));
  CHECK_THAT(losses.why(), Catch::Contains("agent-a1.key") && Catch::Contains("SYS_ENOENT"));
}

TEST_CASE("insecure TCP is asked for, warned of, and lets agents in") {
  Rig rig(/*insecure=*/true);
  CHECK(rig.log.Says("--insecure-tcp"));
  CHECK(rig.SayHello(grpc::CreateChannel("ipv4:" + rig.address, grpc::InsecureChannelCredentials()), "a1")
            .code()
            .empty());
}

TEST_CASE("a controller does not listen with what cannot work") {
  const Certs certs;
  const auto code = [](const ServerOptions& options) {
    const auto server = ControllerServer::Listen(options);
    return server.ok() ? std::string() : GetErrorInfo(server.status()).code;
  };
  const std::vector<Endpoint> any = {*ParseEndpoint("127.0.0.1:0")};
  CHECK(code({.listen = {.socket_path = "", .tcp = any}}) == "TLS_FILES_INCOMPLETE");
  CHECK(code({.listen = {.socket_path = "", .tcp = any, .tls = certs.Of("agent-a1")}}) == "TLS_CERT_PURPOSE");
  CHECK(code({.listen = {.socket_path = "", .tcp = {*ParseEndpoint("192.0.2.1:0")}, .tls = certs.Of("controller")}}) ==
        "PORT_IN_USE");
  auto first = ControllerServer::Listen({.listen = {.socket_path = "", .tcp = any, .tls = certs.Of("controller")}});
  REQUIRE(first.ok());
  CHECK(code({.listen = {.socket_path = "", .tcp = {(*first)->Listening().at(0)}, .tls = certs.Of("controller")}}) ==
        "PORT_IN_USE");
}

}  // namespace muster::test
