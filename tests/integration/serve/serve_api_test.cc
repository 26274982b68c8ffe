// The API of the long-running controller over real gRPC, with agents that follow a script.
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <thread>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/wire/grpc_status.h"
#include "controller/client/controller_client.h"
#include "controller/queue/run_queue.h"
#include "controller/service/run_feed.h"
#include "controller/service/serve_controller.h"
#include "muster/v1/controller_api.grpc.pb.h"
#include "tests/integration/controller/scripted_agent.h"
#include "tests/support/loop_fs.h"

namespace muster::test {
namespace {

constexpr Nanos kPatience = 60 * kSecond;

// A controller with its thread, and a client of it.
struct Fixture {
  Fixture() {
    InitLogging("test", LogLevel::kError);
    auto listening = ServeController::Listen({.listen = {.socket_path = socket}, .runs_dir = dir.path() + "/runs"});
    INFO(FormatError(listening.status()));
    REQUIRE(listening.ok());
    controller = std::move(*listening);
    serving = std::thread([this] { controller->Serve(stop, reopen); });
    auto connected = ControllerClient::Connect("unix:" + socket);
    REQUIRE(connected.ok());
    client = std::move(*connected);
  }
  ~Fixture() {
    client = nullptr;
    stop = 2;
    serving.join();
  }
  void Add(Act act = Act::kNothing) {
    agents.push_back(std::make_unique<ScriptedAgent>(
        socket, ScriptedAgent::Options{.id = "agent-" + std::to_string(agents.size()), .act = act}));
    CHECK_FALSE(agents.back()->Connect().has_error());
  }
  static v1::SubmitRunRequest Campaign(const std::string& window = "500ms", const std::string& more = "") {
    v1::SubmitRunRequest request;
    request.set_campaign_file("c.yaml");
    request.set_campaign_text(
        "name: api\ntargets: {cal: {null: {}}}\ninterval: 100ms\n" + more +
        "steps: [{name: one, target: cal, workload: {size: 1MiB}, measure: {warmup: 100ms, window: " + window +
        "}}]\n");
    return request;
  }
  std::string Submit(const v1::SubmitRunRequest& request) {
    auto run = client->Submit(request);
    INFO(FormatError(run.status()));
    REQUIRE(run.ok());
    return *run;
  }
  // The last event of a run.
  v1::RunEnded WaitForEnd(const std::string& run) {
    const auto watch = client->Watch(run);
    const Nanos until = SteadyClock::Get().Now() + kPatience;
    while (SteadyClock::Get().Now() < until) {
      auto event = watch->Next(kSecond);
      INFO(FormatError(event.status()));
      REQUIRE(event.ok());
      if (*event && (*event)->has_ended()) return (*event)->ended();
    }
    FAIL("the run did not end");
    return {};
  }
  std::string CodeOf(const absl::Status& status) { return GetErrorInfo(status).code; }

  TempDir dir{"muster-serve"};
  std::string socket = dir.path() + "/s/control.sock";
  std::unique_ptr<ServeController> controller;
  std::atomic<int> stop{0}, reopen{0};
  std::thread serving;
  std::unique_ptr<ControllerClient> client;
  std::vector<std::unique_ptr<ScriptedAgent>> agents;
};

TEST_CASE("a campaign is submitted, watched and its result read") {
  Fixture f;
  f.Add();
  f.Add();
  const std::string run = f.Submit(f.Campaign());
  const v1::RunEnded ended = f.WaitForEnd(run);
  CHECK(ended.outcome() == "complete");
  CHECK_FALSE(ended.any_invalid());
  const auto json = f.client->Result(run, v1::RESULT_FORM_JSON);
  REQUIRE(json.ok());
  CHECK(json->find("\"VALID\"") != std::string::npos);
  const auto table = f.client->Result("last", v1::RESULT_FORM_TABLE);
  REQUIRE(table.ok());
  CHECK(table->find("one") != std::string::npos);
  const auto agents = f.client->ListAgents();
  REQUIRE(agents.ok());
  REQUIRE(agents->agents_size() == 2);
  CHECK(agents->agents(0).run().empty());
  CHECK(agents->agents(0).link() == "up");
  // The next run has the same agents again, and numbers of reports go on where they were.
  CHECK(f.WaitForEnd(f.Submit(f.Campaign())).outcome() == "complete");
}

TEST_CASE("an agent lost in one run is nothing to the other, and may come again") {
  Fixture f;
  f.Add(Act::kVanishInRun);
  auto request = f.Campaign("2s");
  request.set_agents(1);
  const std::string first = f.Submit(request);
  const Nanos until = SteadyClock::Get().Now() + kPatience;
  const auto used = [&] {
    const auto list = f.client->ListRuns();
    return list.ok() && list->runs(0).state() != v1::RUN_STATE_WAITING;
  };
  while (!used() && SteadyClock::Get().Now() < until) std::this_thread::yield();
  f.Add();
  const std::string second = f.Submit(request);
  const v1::RunEnded lost = f.WaitForEnd(first);
  CHECK(lost.outcome() == "aborted");
  CHECK(lost.error().code() == "LEASE_ENDED");
  CHECK(f.WaitForEnd(second).outcome() == "complete");
  f.agents.clear();
  f.Add();
  CHECK(f.WaitForEnd(f.Submit(request)).outcome() == "complete");
}

TEST_CASE("what is wrong with a request is a typed error, and nothing is queued") {
  Fixture f;
  auto request = f.Campaign();
  request.set_agents(5000);
  CHECK(f.CodeOf(f.client->Submit(request).status()) == "MESSAGE_INVALID");
  request = f.Campaign("1s", "nonsense: 1\n");
  const absl::Status unknown = f.client->Submit(request).status();
  CHECK(f.CodeOf(unknown) == "UNKNOWN_KEY");
  CHECK(GetErrorInfo(unknown).place == "c.yaml:4:1");
  request.set_campaign_text(
      "name: chap\ntargets: {lun: {iscsi: {portal: h, iqn: iqn.x}, chap: {user: u, secret: {env: X}}}}\n"
      "steps: [{name: one, target: lun, workload: {size: 1MiB}}]\n");
  CHECK(f.CodeOf(f.client->Submit(request).status()) == "SECRET_MISSING");
  CHECK(f.CodeOf(f.client->Cancel("", false).status()) == "MESSAGE_INVALID");
  CHECK(f.CodeOf(f.client->Cancel("none", false).status()) == "RUN_UNKNOWN");
  CHECK(f.CodeOf(f.client->Result("none", v1::RESULT_FORM_JSON).status()) == "RUN_UNKNOWN");
  CHECK(f.CodeOf(f.client->Result("../../etc", v1::RESULT_FORM_JSON).status()) == "RUN_UNKNOWN");
  CHECK(f.CodeOf(f.client->Watch("none")->Next(kPatience).status()) == "RUN_UNKNOWN");
  request = f.Campaign();
  request.set_campaign_text(std::string(size_t{20} << 20, ' '));
  CHECK_FALSE(f.client->Submit(request).ok());
  CHECK(f.client->ListRuns()->runs().empty());
  const std::string run = f.Submit(f.Campaign());
  CHECK(f.CodeOf(f.client->Result(run, v1::RESULT_FORM_JSON).status()) == "RUN_NOT_ENDED");
}

TEST_CASE("the queue and the watchers of a run are bounded") {
  Fixture f;
  std::string run;
  for (size_t i = 0; i < QueueLimits().waiting; ++i) run = f.Submit(f.Campaign());
  CHECK(f.CodeOf(f.client->Submit(f.Campaign()).status()) == "QUEUE_FULL");
  CHECK(f.client->ListRuns()->runs_size() == static_cast<int>(QueueLimits().waiting));
  // All ids begin with their time.
  CHECK(f.CodeOf(f.client->Cancel("20", false).status()) == "RUN_AMBIGUOUS");
  REQUIRE(f.client->Cancel(run, false)->waiting());
  CHECK(f.WaitForEnd(run).outcome() == "cancelled");
  run = f.Submit(f.Campaign());

  std::vector<std::unique_ptr<RunWatch>> watches;
  for (size_t i = 0; i < RunFeed::kWatchers; ++i) {
    watches.push_back(f.client->Watch(run));
    const auto first = watches.back()->Next(kPatience);
    REQUIRE(first.ok());
    CHECK((*first)->has_planned());
  }
  CHECK(f.CodeOf(f.client->Watch(run)->Next(kPatience).status()) == "WATCHERS_FULL");
  f.Add();
  CHECK(f.client->ListRuns().ok());
}

TEST_CASE("the end of the controller is told to who waits and who watches, and agents get a goodbye") {
  Fixture f;
  f.Add();
  const std::string running = f.Submit(f.Campaign("60s"));
  const std::string waiting = f.Submit(f.Campaign("60s"));
  const auto watch = f.client->Watch(running);
  const auto other = f.client->Watch(waiting);
  bool live = false;
  const Nanos until = SteadyClock::Get().Now() + kPatience;
  while (!live && SteadyClock::Get().Now() < until) {
    const auto event = watch->Next(kSecond);
    REQUIRE(event.ok());
    live = *event && (*event)->has_live();
  }
  REQUIRE(live);
  f.stop = 1;
  for (RunWatch* of : {watch.get(), other.get()}) {
    std::optional<v1::RunEvent> last;
    while (!of->over() && SteadyClock::Get().Now() < until) {
      const auto event = of->Next(kSecond);
      if (!event.ok()) break;
      if (*event) last = **event;
    }
    REQUIRE(last);
    CHECK(last->ended().outcome() == "cancelled");
    CHECK(last->ended().path().empty() == (of == other.get()));
  }
  CHECK(f.agents[0]->WaitForGoodbye(kPatience));
}

TEST_CASE("an address that is none, and one where nobody is") {
  CHECK(GetErrorInfo(ControllerClient::Connect("unix:relative").status()).code == "ENDPOINT_INVALID");
  TempDir dir{"muster-serve"};
  CHECK(GetErrorInfo(ControllerClient::Connect("unix:" + dir.path() + "/none").status()).code ==
        "CONTROLLER_NOT_THERE");
  const std::string file = dir.path() + "/file";
  FILE* made = fopen(file.c_str(), "w");
  REQUIRE(made != nullptr);
  fclose(made);
  CHECK(
      GetErrorInfo(ServeController::Listen({.listen = {.socket_path = dir.path() + "/s/x"}, .runs_dir = file + "/runs"})
                       .status())
          .code == "RUNS_DIR");
}

}  // namespace
}  // namespace muster::test
