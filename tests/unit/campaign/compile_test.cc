// What Compile refuses, each with its code and exact place.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "tests/unit/campaign/campaign_fixture.h"

namespace muster {
namespace {

// One step, its lines from 10 on; the text of `step` is indented below it.
std::string WithStep(const std::string& step) {
  return "name: t\n"
         "interval: 1s\n"
         "targets:\n"
         "  cal: {null: {}}\n"
         "  one: {file: {dir: /srv/one}}\n"
         "  each: {file: {dir: /srv/each, files: per_initiator}}\n"
         "  own: {file: {dir: /srv/own, files: per_stream}}\n"
         "  disk: {block: {device: /dev/sdx, overwrite: {id: X, size: 10MiB}}}\n"
         "steps:\n"
         "  - name: s\n" +
         step;
}

struct Case {
  const char* step;
  const char* code;
  const char* place;
  const char* says;
};

void Check(const Case& c) {
  const ErrorInfo info = ErrorOf(WithStep(c.step));
  INFO(c.step << info.place << ": " << info.message << " [" << info.code << "] " << info.next);
  CHECK(info.code == c.code);
  CHECK(info.place == c.place);
  CHECK((info.message + "\n" + info.next).find(c.says) != std::string::npos);
}

TEST_CASE("what is right compiles") {
  for (const char* step : {
           "    target: cal\n    workload: {size: 1MiB}\n",
           "    target: one\n    workload: {size: 1MiB, read: 0%, flush_every: 4}\n",
           "    target: each\n    workload: {size_per_initiator: 1MiB}\n",
           "    target: own\n    workload: {size: 1MiB, layout: partition}\n    load: 16T16Q\n",
           "    target: disk\n    workload: {size: 1MiB, rate: 10k/s}\n    load: 4T1Q\n",
           "    target: disk\n    workload: {size: 1MiB, pacing: fixed}\n    sweep: {rate: [1/s, 2/s], load: [1T1Q]}\n",
           "    target: cal\n    workload: {size: 1MiB}\n    precondition: {fill: 2x}\n",
           "    target: cal\n    workload: {size: 1MiB, flush_every: 2}\n    sweep: {read: [100%, 50%]}\n",
       }) {
    INFO(step);
    const ErrorInfo info = ErrorOf(WithStep(step));
    INFO(info.place << info.message);
    CHECK(info.code == "OK");
  }
}

TEST_CASE("contradictions name both places") {
  const std::vector<Case> cases{
      {"    target: cal\n    workload: {size: 1MiB, size_per_initiator: 1MiB}\n", "CONTRADICTION", "c.yaml:12:28",
       "size at 12:16"},
      {"    target: cal\n    workload:\n      size_per_initiator: 1MiB\n      size: 1MiB\n", "CONTRADICTION",
       "c.yaml:14:7", "size_per_initiator at 13:7"},
      {"    target: cal\n    workload: {size: 1MiB, pacing: fixed}\n", "CONTRADICTION", "c.yaml:12:36", "need a rate"},
      {"    target: cal\n    workload: {size: 1MiB, pacing: poisson}\n", "CONTRADICTION", "c.yaml:12:36",
       "rate: 10k/s"},
      {"    target: cal\n    workload: {size: 1MiB, pacing: closed, rate: 1/s}\n", "CONTRADICTION", "c.yaml:12:44",
       "workload.pacing at 12:28"},
      {"    target: cal\n    workload: {size: 1MiB, pacing: closed}\n    sweep: {rate: [1/s]}\n", "CONTRADICTION",
       "c.yaml:13:13", "workload.pacing at 12:28"},
      {"    target: cal\n    workload: {size: 1MiB, max_outstanding: 8}\n", "CONTRADICTION", "c.yaml:12:28",
       "no rate is given"},
      {"    target: cal\n    workload: {size: 1MiB, rate_per: stream}\n", "CONTRADICTION", "c.yaml:12:28",
       "no rate is given"},
      {"    target: cal\n    workload: {size: 1MiB, rate: 1/s}\n    load: 4T4Q\n", "CONTRADICTION", "c.yaml:13:11",
       "4T1Q"},
      {"    target: cal\n    workload: {size: 1MiB, rate: 1/s}\n    sweep: {load: [4T1Q, 4T4Q]}\n", "CONTRADICTION",
       "c.yaml:13:26", "4T1Q"},
      {"    target: cal\n    workload: {size: 1MiB, rate: 1/s, overload_after: 900ms}\n", "CONTRADICTION",
       "c.yaml:12:55", "shorter than the interval"},
      {"    target: each\n    workload: {size: 1MiB, layout: shared}\n", "CONTRADICTION", "c.yaml:12:28",
       "files per_initiator at 6:33"},
      {"    target: own\n    workload: {size: 1MiB, layout: shared}\n", "CONTRADICTION", "c.yaml:12:28",
       "files per_stream at 7:31"},
      {"    target: cal\n    workload: {size: 1MiB, trim: 100%, flush_every: 8}\n", "CONTRADICTION", "c.yaml:12:40",
       "workload.trim at 12:28"},
      {"    target: cal\n    workload: {size: 1MiB, flush_every: 8}\n", "CONTRADICTION", "c.yaml:12:28",
       "read is 100%"},
      {"    target: cal\n    workload: {size: 1MiB}\n    load: 1T1Q\n    sweep: {load: [1T1Q]}\n", "CONTRADICTION",
       "c.yaml:14:13", "load at 13:5"},
      {"    target: cal\n    workload: {size: 1MiB, block: 4K}\n    sweep: {block: [4K]}\n", "CONTRADICTION",
       "c.yaml:13:13", "workload.block at 12:28"},
      {"    target: cal\n    sweep: {read: 4%}\n    workload: {size: 1MiB, read: 5%}\n", "CONTRADICTION",
       "c.yaml:13:28", "sweep.read at 12:13"},
      {"    target: cal\n    workload: {size: 1MiB, rate: 1/s}\n    sweep: {rate: [2/s]}\n", "CONTRADICTION",
       "c.yaml:13:13", "workload.rate at 12:28"},
  };
  for (const Case& c : cases) Check(c);
}

TEST_CASE("values that no single field shows to be wrong") {
  const std::vector<Case> cases{
      {"    target: cla\n    workload: {size: 1MiB}\n", "UNKNOWN_TARGET", "c.yaml:11:13", "Did you mean \"cal\"?"},
      {"    target: nowhere\n    workload: {size: 1MiB}\n", "UNKNOWN_TARGET", "c.yaml:11:13",
       "The targets are: cal, one, each, own, disk."},
      {"    target: cal\n    workload: {block: 4K}\n", "MISSING_KEY", "c.yaml:12:15", "size or size_per_initiator"},
      {"    target: cal\n    workload: {size: 1MiB, block: 4000}\n", "BLOCK_NOT_ALIGNED", "c.yaml:12:35",
       "3584B and 4KiB"},
      {"    target: cal\n    workload: {size: 1MiB}\n    sweep: {block: [4K, 4001]}\n", "BLOCK_NOT_ALIGNED",
       "c.yaml:13:25", "3584B and 4KiB"},
      {"    target: cal\n    workload: {size: 1MiB}\n    precondition: {fill_block: 5000}\n", "BLOCK_NOT_ALIGNED",
       "c.yaml:13:32", "4608B and 5KiB"},
      {"    target: cal\n    workload: {size: 1MiB}\n    measure: {window: 10500ms}\n", "WINDOW_NOT_WHOLE",
       "c.yaml:13:23", "10s and 11s"},
      {"    target: cal\n    workload: {size: 1MiB}\n    measure: {window: 200ms}\n", "WINDOW_NOT_WHOLE",
       "c.yaml:13:23", "The nearest is 1s."},
      {"    target: cal\n    workload: {size: 1MiB}\n    measure: {warmup: 200ms}\n", "WINDOW_NOT_WHOLE",
       "c.yaml:13:23", "0s and 1s"},
      {"    target: cal\n    workload: {size: 1MiB}\n    sweep: {initiators: [1, 2, 1]}\n", "DUPLICATE_POINT",
       "c.yaml:13:32", "first at 13:26"},
      {"    target: cal\n    workload: {size: 1MiB}\n    sweep: {block: [4K, 8K, 4096]}\n", "DUPLICATE_POINT",
       "c.yaml:13:29", "4KiB is swept twice"},
      {"    target: cal\n    workload: {size: 1MiB}\n  - name: s\n    target: cal\n    workload: {size: 1MiB}\n",
       "DUPLICATE_STEP", "c.yaml:13:11", "first at 10:11"},
      {"    target: cal\n    workload: {size: 12KiB, pattern: sequential}\n    load: 4T1Q\n", "SET_TOO_SMALL",
       "c.yaml:12:22", "size must be at least 16KiB"},
      {"    target: cal\n    workload: {size_per_initiator: 12KiB, pattern: sequential}\n    load: 4T1Q\n",
       "SET_TOO_SMALL", "c.yaml:12:36", "size_per_initiator must be at least 16KiB"},
      {"    target: one\n    workload: {size: 2KiB}\n", "SET_TOO_SMALL", "c.yaml:12:22", "at least 4KiB"},
      {"    target: one\n    workload: {size: 4KiB, layout: partition}\n    sweep: {initiators: [2, 4]}\n",
       "SET_TOO_SMALL", "c.yaml:12:22", "at least 16KiB"},
      {"    target: each\n    workload: {size: 12KiB}\n    sweep: {initiators: [2, 4]}\n", "SET_TOO_SMALL",
       "c.yaml:12:22", "at least 16KiB"},
      {"    target: own\n    workload: {size: 1MiB, block: 64K}\n    load: 32T1Q\n", "SET_TOO_SMALL", "c.yaml:12:22",
       "at least 2MiB"},
      {"    target: cal\n    workload: {size_per_initiator: 1024TiB}\n    sweep: {initiators: [1, 2]}\n", "UNIT_RANGE",
       "c.yaml:12:36", "1024TiB in all"},
      {"    target: disk\n    workload: {size: 8388609}\n", "SET_TOO_LARGE", "c.yaml:12:22", "At most 8MiB."},
      {"    target: disk\n    workload: {size_per_initiator: 3MiB}\n    sweep: {initiators: [1, 3]}\n", "SET_TOO_LARGE",
       "c.yaml:12:36", "At most 8MiB."},
      {"    target: own\n    workload: {size: 1TiB}\n    load: 65535T1Q\n    sweep: {initiators: 2}\n",
       "PLAN_TOO_LARGE", "c.yaml:10:5", "131070 files"},
  };
  for (const Case& c : cases) Check(c);
}

TEST_CASE("two targets over the same bytes contradict each other") {
  const std::string steps =
      "steps: [{name: s, target: a, workload: {size: 1M}}, {name: t, target: b, workload: {size: 1M}}]\n";
  struct Pair {
    const char* a;
    const char* b;
    bool overlap;
  };
  for (const Pair& p : {Pair{"{file: {dir: /srv/x}}", "{file: {dir: /srv/x}}", true},
                        Pair{"{file: {dir: /srv/x}}", "{file: {dir: /srv/./y/..//x/}}", true},
                        Pair{"{file: {dir: /srv/x}}", "{file: {dir: /srv/x/muster-data}}", true},
                        Pair{"{file: {dir: /srv/x/muster-data/z}}", "{file: {dir: /srv/x}}", true},
                        Pair{"{block: {device: /dev/sdx}}", "{block: {device: /dev//sdx}}", true},
                        Pair{"{file: {dir: /srv/x}}", "{file: {dir: /srv/x/y}}", false},
                        Pair{"{file: {dir: /srv/x}}", "{file: {dir: /srv/xy}}", false},
                        Pair{"{block: {device: /dev/sdx}}", "{block: {device: /dev/sdy}}", false},
                        Pair{"{null: {}}", "{null: {}}", false}}) {
    INFO(p.a << " " << p.b);
    const ErrorInfo info = ErrorOf(fmt::format("name: t\ntargets:\n  a: {}\n  b: {}\n{}", p.a, p.b, steps));
    if (!p.overlap) {
      CHECK(info.code == "OK");
      continue;
    }
    CHECK(info.code == "CONTRADICTION");
    CHECK(info.place.starts_with("c.yaml:4:"));
    CHECK(info.message.find(" at 3:") != std::string::npos);
  }
}

TEST_CASE("expansion is bounded") {
  const auto list = [](int count, const char* format) {
    std::string out;
    for (int i = 1; i <= count; ++i) out += (i > 1 ? ", " : "") + fmt::format(fmt::runtime(format), i);
    return out;
  };
  const std::string sweep = fmt::format(
      "    target: cal\n    workload: {{size: 1GiB}}\n    sweep:\n"
      "      initiators: [{}]\n      load: [{}]\n",
      list(200, "{}"), list(200, "1T{}Q"));
  Check({sweep.c_str(), "PLAN_TOO_LARGE", "c.yaml:13:5", "40000 points"});

  // Many steps of few points each run into the same bound.
  std::string steps = WithStep("    target: cal\n    workload: {size: 1MiB}\n");
  for (int i = 0; i < 60; ++i) {
    steps +=
        fmt::format("  - name: s{}\n    target: cal\n    workload: {{size: 1GiB}}\n    sweep: {{initiators: [{}]}}\n",
                    i, list(200, "{}"));
  }
  CHECK(ErrorOf(steps).code == "PLAN_TOO_LARGE");

  const std::string files =
      fmt::format("    target: own\n    workload: {{size: 1TiB}}\n    load: 1000T1Q\n    sweep: {{block: [{}]}}\n",
                  list(100, "{}KiB"));
  std::string many = WithStep(files);
  many.insert(many.find("interval"), "initiators: {count: 60}\n");
  const ErrorInfo info = ErrorOf(many);
  CHECK(info.code == "PLAN_TOO_LARGE");
  CHECK(info.message.find("6000000 files in all") != std::string::npos);
}

TEST_CASE("a window must fit the number of intervals an agent takes") {
  std::string text = WithStep("    target: cal\n    workload: {size: 1MiB}\n    measure: {window: 1000h}\n");
  text.replace(text.find("interval: 1s"), 12, "interval: 100ms");
  const ErrorInfo info = ErrorOf(text);
  CHECK(info.code == "UNIT_RANGE");
  CHECK(info.place == "c.yaml:13:23");
}

TEST_CASE("problems of several steps are told at once") {
  const ErrorInfo info =
      ErrorOf(WithStep("    target: nowhere\n    workload: {size: 1MiB}\n"
                       "  - {name: u, target: cal, workload: {size: 1MiB, pacing: fixed, flush_every: 3}}\n"
                       "  - {name: v, target: own, workload: {}}\n"));
  CHECK(info.code == "UNKNOWN_TARGET");
  CHECK(info.next.find("and 3 more:") != std::string::npos);
  CHECK(info.next.find("c.yaml:13:59: fixed and poisson") != std::string::npos);
  CHECK(info.next.find("c.yaml:13:66: flush_every") != std::string::npos);
  CHECK(info.next.find("c.yaml:14:38: steps[2].workload needs size") != std::string::npos);
}

}  // namespace
}  // namespace muster
