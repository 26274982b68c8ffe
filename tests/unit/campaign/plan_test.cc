// What Compile makes of a right campaign.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "common/plan/layout.h"
#include "tests/unit/campaign/campaign_fixture.h"

namespace muster {
namespace {

Plan PlanOf(const std::string& yaml) {
  const auto loaded = LoadCampaignText("c.yaml", yaml);
  INFO(FormatError(loaded.status()));
  REQUIRE(loaded.ok());
  auto plan = Compile(*loaded);
  INFO(FormatError(plan.status()));
  REQUIRE(plan.ok());
  return *std::move(plan);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const std::string kTargets =
    "name: t\n"
    "targets:\n"
    "  one: {file: {dir: /srv/one}}\n"
    "  each: {file: {dir: /srv/each, files: per_initiator}}\n"
    "  disk: {block: {device: /dev/sdx}}\n"
    "  cal: {null: {}}\n"
    "steps:\n";

std::string Step(const std::string& name, const std::string& target, const std::string& workload,
                 const std::string& more = {}) {
  return "  - {name: " + name + ", target: " + target + ", workload: {" + workload + "}" +
         (more.empty() ? "" : ", " + more) + "}\n";
}

TEST_CASE("a whole plan as people read it") {
  const std::string dir = std::string(MUSTER_SOURCE_DIR) + "/tests/unit/campaign/";
  const auto loaded = LoadCampaignText("campaign.yaml", ReadFile(dir + "golden_campaign.yaml"));
  INFO(FormatError(loaded.status()));
  REQUIRE(loaded.ok());
  const auto plan = Compile(*loaded);
  INFO(FormatError(plan.status()));
  REQUIRE(plan.ok());
  CHECK(FormatPlan(*plan) == ReadFile(dir + "golden_plan.txt"));
}

TEST_CASE("buffers are what an agent will ask for at Prepare") {
  muster::Step step;
  step.initiators = 5;
  step.measure.workload.block = 5000;  // two pages
  step.measure.workload.load = {.streams = 3, .depth = 4};
  CHECK(BufferBytes(step, 1) == 5 * 12 * 8192);
  CHECK(BufferBytes(step, 2) == 3 * 12 * 8192);  // the larger share
  CHECK(BufferBytes(step, 64) == 12 * 8192);
  step.measure.workload.pacing = Pacing::kPoisson;
  step.measure.workload.max_outstanding = 100;
  CHECK(BufferBytes(step, 1) == 5 * 100 * 8192);
  step.fill_passes = 1;
  step.fill.block = 16 << 20;
  CHECK(BufferBytes(step, 1) == 8 * (16 << 20));
  step.initiators = 4096;
  step.measure.workload = {.block = 64 << 20, .load = {.streams = 65'535, .depth = 65'535}};
  CHECK(BufferBytes(step, 1) == UINT64_MAX);
  Plan plan{.steps = {step}};
  plan.steps[0].name = "wide";
  const ErrorInfo error = GetErrorInfo(CheckBuffers(plan, 1, uint64_t{1} << 32));
  CHECK(error.code == "BUFFER_MEMORY");
  CHECK(error.place == "step wide");
  plan.steps[0].skip_reason = "too small";
  CHECK(CheckBuffers(plan, 1, uint64_t{1} << 32).ok());
  CHECK(DefaultBufferBound() > 1 << 20);
}

TEST_CASE("sweeps go in the order of the file, the first list slowest") {
  const Plan plan =
      PlanOf(kTargets + Step("db", "cal", "size: 1GiB", "sweep: {load: [1T1Q, 2T4Q], initiators: [2, 1]}") +
             Step("re", "cal", "size: 1GiB", "sweep: {initiators: [2, 1], load: [1T1Q, 2T4Q]}") +
             Step("va", "cal", "size: 1GiB, pacing: fixed",
                  "sweep: {rate: [600/min, 1500/s], read: 0.5%, block: [4096, 1M]}"));
  std::vector<std::string> names;
  for (const auto& step : plan.steps) names.push_back(step.name);
  CHECK(names == std::vector<std::string>{
                     "db[load=1T1Q,initiators=2]", "db[load=1T1Q,initiators=1]", "db[load=2T4Q,initiators=2]",
                     "db[load=2T4Q,initiators=1]", "re[initiators=2,load=1T1Q]", "re[initiators=2,load=2T4Q]",
                     "re[initiators=1,load=1T1Q]", "re[initiators=1,load=2T4Q]", "va[rate=10/s,read=0.5%,block=4KiB]",
                     "va[rate=10/s,read=0.5%,block=1MiB]", "va[rate=1500/s,read=0.5%,block=4KiB]",
                     "va[rate=1500/s,read=0.5%,block=1MiB]"});
  const auto& step = plan.steps[2];
  CHECK(step.index == 2);
  CHECK(step.campaign_step == "db");
  CHECK(step.sweep_point == std::vector<std::pair<std::string, std::string>>{{"load", "2T4Q"}, {"initiators", "2"}});
  CHECK(step.initiators == 2);
  CHECK(step.initiators_max == 2);
  CHECK(step.measure.workload.load == Load{2, 4});
  CHECK(plan.steps[3].initiators == 1);
  CHECK(plan.steps[3].initiators_max == 2);
  CHECK(plan.steps[9].measure.workload.block == 1 << 20);
  CHECK(plan.steps[9].measure.workload.rate == 10);
  CHECK(plan.steps[9].measure.workload.read == 0.005);
  CHECK(plan.steps[9].measure.workload.pacing == Pacing::kFixed);
}

TEST_CASE("points draw different accesses, the same campaign the same ones") {
  const std::string yaml = kTargets + Step("a", "cal", "size: 1MiB", "sweep: {initiators: [1, 2, 3]}");
  const Plan plan = PlanOf(yaml);
  std::set<uint64_t> seeds;
  for (const auto& step : plan.steps) seeds.insert({step.measure.workload.seed, step.fill.seed});
  CHECK(seeds.size() == 6);
  CHECK(PlanOf(yaml).steps[1].measure.workload.seed == plan.steps[1].measure.workload.seed);
  CHECK(PlanOf("seed: 2\n" + yaml).steps[1].measure.workload.seed != plan.steps[1].measure.workload.seed);
}

TEST_CASE("size is the total, size_per_initiator times the largest rung") {
  const Plan plan = PlanOf("initiators: {count: 3}\n" + kTargets + Step("a", "cal", "size: 1MiB") +
                           Step("b", "cal", "size_per_initiator: 1MiB") +
                           Step("c", "cal", "size_per_initiator: 1MiB", "sweep: {initiators: [1, 8, 2]}") +
                           Step("d", "each", "size_per_initiator: 1MiB", "sweep: {initiators: [1, 2]}"));
  CHECK(plan.steps[0].measure.workload.size == 1 << 20);
  CHECK(plan.steps[0].initiators == 3);
  CHECK(plan.steps[1].measure.workload.size == 3 << 20);
  for (size_t i = 2; i < 5; ++i) CHECK(plan.steps[i].measure.workload.size == 8 << 20);
  const auto& each = plan.steps[5];
  REQUIRE(each.objects.size() == 2);
  CHECK(each.objects[1].size == 1 << 20);
  CHECK(each.objects[1].name == "data.1");
  CHECK(each.measure.workload.layout == Layout::kPartition);
  CHECK(plan.steps[0].measure.workload.layout == Layout::kShared);
}

TEST_CASE("files that are read are filled once, nothing else by itself") {
  const std::string pair = "sweep: {initiators: [1, 2]}";
  const Plan plan = PlanOf(kTargets + Step("w", "one", "size: 1MiB, read: 0%") + Step("a", "one", "size: 1MiB", pair) +
                           Step("b", "one", "size: 1MiB, block: 64KiB") + Step("c", "one", "size: 2MiB") +
                           Step("d", "one", "size: 2MiB", "precondition: {fill: 2x}") +
                           Step("e", "one", "size: 2MiB, trim: 10%", "precondition: {fill: 0x}") +
                           Step("f", "one", "size: 2MiB") + Step("g", "disk", "size: 2MiB, read: 50%") +
                           Step("h", "cal", "size: 2MiB") + Step("i", "cal", "size: 2MiB", "precondition: {fill: 1x}"));
  std::vector<std::string> fills;
  for (const auto& step : plan.steps) fills.push_back(step.name + "=" + std::to_string(step.fill_passes));
  CHECK(fills == std::vector<std::string>{"w=0", "a[initiators=1]=1", "a[initiators=2]=0", "b=0", "c=1", "d=2", "e=0",
                                          "f=1", "g=0", "h=0", "i=1"});
  std::string writes;
  for (const auto& step : plan.steps) writes += step.writes ? 'w' : '-';
  //                w a0 a1 b c d e f g h i
  CHECK(writes == "ww--wwwww-w");
  CHECK(plan.steps[1].bytes_written_at_least == 1 << 20);
  CHECK(plan.steps[5].bytes_written_at_least == 4 << 20);
  CHECK(plan.steps[5].fill.block == 1 << 20);
  CHECK(plan.steps[2].bytes_written_at_least == 0);
  // Fill at 200 MB/s, then 5 s and 30 s.
  CHECK(plan.steps[1].estimated == 35 * kSecond + (Nanos{1} << 20) * 5);
  CHECK(plan.steps[2].estimated == 35 * kSecond);
  CHECK(plan.warnings == std::vector<std::string>{"c.yaml:13:5: step e reads blocks that it may have trimmed before",
                                                  "c.yaml:15:5: step g reads blocks that this run did not write",
                                                  "c.yaml:4:3: target each is used by no step"});
}

TEST_CASE("a read-only step over files that exist writes nothing, over new ones it lays them out") {
  const Plan plan =
      PlanOf(kTargets + Step("a", "one", "size: 1MiB", "precondition: {fill: 0x}") +
             Step("b", "one", "size: 1MiB", "precondition: {fill: 0x}") + Step("c", "disk", "size: 1MiB"));
  CHECK(plan.steps[0].writes);
  CHECK_FALSE(plan.steps[1].writes);
  CHECK_FALSE(plan.steps[2].writes);
  CHECK(plan.warnings.size() == 3 + 2);  // each reads what was not written; two targets are not used
}

TEST_CASE("steps of one size share their objects whatever their blocks") {
  const Plan plan =
      PlanOf(kTargets + Step("a", "one", "size: 140GB, block: 4KiB") + Step("b", "one", "size: 140GB, block: 128KiB") +
             Step("c", "one", "size: 140GB", "sweep: {block: [512, 12KiB, 1MiB]}"));
  for (const auto& step : plan.steps) {
    CHECK(step.objects[0].size == plan.steps[0].objects[0].size);
    CHECK(step.objects[0].size % step.measure.workload.block == 0);
    CHECK(step.fill_passes == (step.name == "a" ? 1 : 0));
  }
  CHECK(plan.steps[0].objects[0].size > 139'000'000'000);
}

TEST_CASE("a point that cannot be measured is skipped with its reason, the first that can be fills") {
  const Plan plan = PlanOf(kTargets + Step("a", "one", "size: 1MiB, pattern: sequential",
                                           "load: 16T1Q, sweep: {block: [8MiB, 128KiB, 4KiB, 64KiB]}"));
  REQUIRE(plan.steps.size() == 4);
  CHECK(plan.steps[0].skip_reason ==
        "the working set is too small: a stream's part holds no block of 8MiB; 128MiB would do");
  CHECK(plan.steps[1].skip_reason ==
        "the working set is too small: a stream's part holds no block of 128KiB; 2MiB would do");
  CHECK(plan.steps[2].skip_reason.empty());
  CHECK(plan.steps[3].skip_reason.empty());
  CHECK(plan.steps[0].estimated == 0);
  CHECK(plan.steps[0].fill_passes == 0);
  CHECK_FALSE(plan.steps[0].writes);
  CHECK(plan.steps[2].fill_passes == 1);
  CHECK(plan.steps[3].fill_passes == 0);
}

TEST_CASE("the size an error or a skip names is enough, and one block less is not") {
  for (const std::string target : {"one", "each", "cal"}) {
    for (const std::string layout : {"shared", "partition"}) {
      if (target == "each" && layout == "shared") continue;
      for (const std::string pattern : {"random", "sequential"}) {
        const auto step = [&](const std::string& size) {
          return kTargets + Step("a", target, fmt::format("size: {}, layout: {}, pattern: {}", size, layout, pattern),
                                 "load: 5T1Q, sweep: {initiators: [3, 7]}");
        };
        const auto loaded = LoadCampaignText("c.yaml", step("512"));
        REQUIRE(loaded.ok());
        const ErrorInfo info = ErrorOf(step("512"));
        REQUIRE(info.code == "SET_TOO_SMALL");
        // "size must be at least 60KiB."
        std::string needed = info.next.substr(info.next.rfind(' ') + 1);
        needed.pop_back();
        INFO(target << " " << layout << " " << pattern << " needs " << needed);
        CHECK(ErrorOf(step(needed)).code == "OK");
        const auto bytes = ParseSize(needed);
        REQUIRE(bytes.ok());
        CHECK(ErrorOf(step(std::to_string(*bytes - 512))).code == "SET_TOO_SMALL");
        // Every stream of every point that is not skipped has a block.
        for (const auto& s : PlanOf(step(needed)).steps) {
          if (!s.skip_reason.empty()) continue;
          const auto& w = s.measure.workload;
          const Target t = PlanOf(step(needed)).targets[0];
          for (uint32_t i = 0; i < s.initiators; ++i) {
            for (uint32_t n = 0; n < w.load.streams; ++n) {
              const StreamExtent e = ExtentOf(t, s.objects, w, s.initiators, s.initiators_max, i, n);
              CHECK((pattern == "random" ? e.area_length : e.slice_length) >= w.block);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("open loop and the rest of the workload arrive") {
  const Plan plan =
      PlanOf("op_timeout: 10s\ninterval: 500ms\n" + kTargets +
             Step("a", "cal",
                  "size: 1MiB, rate: 10k/s, rate_per: initiator, max_outstanding: 64, overload_after: 2s, "
                  "trim: 5%, read: 40%, flush_every: 8, pattern: sequential",
                  "load: 4T1Q, measure: {warmup: 1s, window: 3s}"));
  const auto& m = plan.steps[0].measure;
  CHECK(m.workload.pacing == Pacing::kPoisson);
  CHECK(m.workload.rate == 10000);
  CHECK(m.workload.rate_per == RatePer::kInitiator);
  CHECK(m.workload.max_outstanding == 64);
  CHECK(m.workload.overload_after == 2 * kSecond);
  CHECK(m.workload.trim == 0.05);
  CHECK(m.workload.read == 0.4);
  CHECK(m.workload.flush_every == 8);
  CHECK(m.workload.pattern == Pattern::kSequential);
  CHECK(m.workload.load == Load{4, 1});
  CHECK(m.warmup_intervals == 2);
  CHECK(m.window_intervals == 6);
  CHECK(plan.interval == 500 * kMillisecond);
  CHECK(plan.op_timeout == 10 * kSecond);
  REQUIRE(plan.targets.size() == 1);
  CHECK(plan.targets[0].name == "cal");
}

TEST_CASE("defaults fit the interval") {
  const Plan plan = PlanOf("interval: 60s\n" + kTargets + Step("a", "cal", "size: 1MiB"));
  CHECK(plan.steps[0].measure.warmup_intervals == 1);
  CHECK(plan.steps[0].measure.window_intervals == 1);
  CHECK(PlanOf("interval: 2s\n" + kTargets + Step("a", "cal", "size: 1MiB")).steps[0].measure.warmup_intervals == 3);
}

TEST_CASE("estimates of the largest campaigns do not overflow") {
  std::string yaml = "interval: 60s\n" + kTargets;
  for (int i = 0; i < 50; ++i) {
    yaml +=
        Step("a" + std::to_string(i), "cal", "size: 1024TiB", "precondition: {fill: 100x}, measure: {window: 1000h}");
  }
  const Plan plan = PlanOf(yaml);
  for (const auto& step : plan.steps) CHECK(step.estimated > 0);
  CHECK(FormatPlan(plan).find("about -") == std::string::npos);
}

}  // namespace
}  // namespace muster
