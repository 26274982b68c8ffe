#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>

#include "common/base/status.h"
#include "common/wire/rules.h"
#include "muster/v1/agent_link.pb.h"

namespace {
// Counts this thread's allocations while a test asks for it. Sanitizers bring their own operators: nothing is counted.
thread_local bool g_counting = false;
thread_local size_t g_allocations = 0;
}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Not inlined: g++ would take the pair of malloc and free for a mismatch of new and free.
[[gnu::noinline]] void* operator new(size_t size) {
  if (g_counting) ++g_allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t /*size*/) noexcept {
  std::free(p);
}
#endif

namespace muster {
namespace {

v1::ReportMessage GoodReport() {
  v1::ReportMessage m;
  m.set_link_id(7);
  m.mutable_key()->set_run("r1");
  m.mutable_key()->set_phase(v1::PHASE_KIND_MEASURE);
  m.set_sequence(1);
  auto& interval = *m.mutable_interval();
  interval.set_interval(3);
  for (uint32_t i = 0; i < 24; ++i) {
    auto& initiator = *interval.add_initiators();
    initiator.set_initiator(i);
    for (const auto kind : {v1::OP_KIND_READ, v1::OP_KIND_WRITE}) {
      auto& k = *initiator.add_kinds();
      k.set_kind(kind);
      k.set_completed(10);
      auto& h = *k.mutable_response();
      h.set_digits(3);
      h.set_lowest(1);
      h.set_highest(4398046511103);
      h.set_counts(std::string(3000, 'x'));
    }
  }
  return m;
}

v1::ControllerMessage GoodPrepare() {
  v1::ControllerMessage m;
  auto& p = *m.mutable_prepare();
  p.mutable_key()->set_run("r1");
  p.mutable_key()->set_phase(v1::PHASE_KIND_MEASURE);
  p.set_target_name("disk");
  p.add_objects()->set_size(1 << 20);
  p.add_initiators(0);
  p.set_initiator_count(1);
  p.set_initiator_count_max(1);
  p.set_interval_ns(1'000'000'000);
  p.set_op_timeout_ns(90'000'000'000);
  p.set_deadline_ns(60'000'000'000);
  auto& measure = *p.mutable_measure();
  measure.set_total_size(1 << 20);
  measure.set_load("16T16Q");
  measure.set_window_intervals(30);
  auto& w = *measure.mutable_workload();
  w.set_block(4096);
  w.set_read(0.7);
  w.set_max_outstanding(1024);
  w.set_overload_after(30'000'000'000);
  return m;
}

std::string PlaceOf(const absl::Status& status) {
  if (status.ok()) return "OK";
  const ErrorInfo info = GetErrorInfo(status);
  CHECK(info.code == "MESSAGE_INVALID");
  CHECK_FALSE(info.message.empty());
  return info.place;
}

TEST_CASE("good messages pass without an allocation") {
  const v1::ReportMessage report = GoodReport();
  const v1::ControllerMessage prepare = GoodPrepare();
  REQUIRE(PlaceOf(ValidateMessage(report)) == "OK");  // compiles the checks
  REQUIRE(PlaceOf(ValidateMessage(prepare)) == "OK");
  g_allocations = 0;
  g_counting = true;
  const std::string control(100, 'x');  // an allocation: the counter counts
  const bool report_ok = ValidateMessage(report).ok();
  const bool prepare_ok = ValidateMessage(prepare).ok();
  g_counting = false;
  CHECK(report_ok);
  CHECK(prepare_ok);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(g_allocations == 1);
#endif
  CHECK(control.size() == 100);
}

TEST_CASE("the place of a wrong field is its path") {
  v1::ReportMessage r = GoodReport();
  r.mutable_interval()->mutable_initiators(5)->mutable_kinds(1)->mutable_response()->set_digits(2);
  CHECK(PlaceOf(ValidateMessage(r)) == "interval.initiators[5].kinds[1].response.digits");

  r = GoodReport();
  r.mutable_interval()->mutable_initiators(0)->mutable_kinds(0)->set_kind(v1::OP_KIND_UNSPECIFIED);
  CHECK(PlaceOf(ValidateMessage(r)) == "interval.initiators[0].kinds[0].kind");

  r = GoodReport();
  r.mutable_interval()->mutable_initiators(0)->mutable_kinds(0)->set_kind(static_cast<v1::OpKind>(99));
  CHECK(PlaceOf(ValidateMessage(r)) == "interval.initiators[0].kinds[0].kind");

  r = GoodReport();
  r.mutable_interval()->set_interval(-1);
  CHECK(PlaceOf(ValidateMessage(r)) == "interval.interval");

  r = GoodReport();
  r.set_sequence(0);
  CHECK(PlaceOf(ValidateMessage(r)) == "sequence");

  r = GoodReport();
  r.mutable_key()->set_run(std::string(65, 'x'));
  CHECK(PlaceOf(ValidateMessage(r)) == "key.run");

  r = GoodReport();
  r.clear_body();
  CHECK(PlaceOf(ValidateMessage(r)) == "body");

  r = GoodReport();
  for (int i = 0; i < 15; ++i) {
    *r.mutable_interval()->mutable_initiators(0)->add_kinds() = r.interval().initiators(0).kinds(0);
  }
  CHECK(PlaceOf(ValidateMessage(r)) == "interval.initiators[0].kinds");
}

TEST_CASE("limits of Prepare hold on the wire") {
  struct Case {
    const char* place;
    void (*damage)(v1::Prepare&);
  };
  const Case cases[] = {
      {"prepare.target_name", [](v1::Prepare& p) { p.set_target_name(std::string(65, 'x')); }},
      {"prepare.initiators",
       [](v1::Prepare& p) {
         for (int i = 0; i < 4096; ++i) p.add_initiators(1);
       }},
      {"prepare.initiators[1]", [](v1::Prepare& p) { p.add_initiators(70'000); }},
      {"prepare.interval_ns", [](v1::Prepare& p) { p.set_interval_ns(1); }},
      {"prepare.deadline_ns", [](v1::Prepare& p) { p.clear_deadline_ns(); }},
      {"prepare.work", [](v1::Prepare& p) { p.clear_work(); }},
      {"prepare.key.phase", [](v1::Prepare& p) { p.mutable_key()->clear_phase(); }},
      {"prepare.measure.load", [](v1::Prepare& p) { p.mutable_measure()->set_load("16Q"); }},
      {"prepare.measure.window_intervals", [](v1::Prepare& p) { p.mutable_measure()->set_window_intervals(0); }},
      {"prepare.measure.workload.block", [](v1::Prepare& p) { p.mutable_measure()->mutable_workload()->set_block(0); }},
      {"prepare.measure.workload.size", [](v1::Prepare& p) { p.mutable_measure()->mutable_workload()->set_size(511); }},
      {"prepare.measure.workload.read",
       [](v1::Prepare& p) {
         p.mutable_measure()->mutable_workload()->set_read(std::numeric_limits<double>::quiet_NaN());
       }},
      {"prepare.measure.workload.rate",
       [](v1::Prepare& p) {
         p.mutable_measure()->mutable_workload()->set_rate(std::numeric_limits<double>::infinity());
       }},
  };
  for (const Case& c : cases) {
    v1::ControllerMessage m = GoodPrepare();
    c.damage(*m.mutable_prepare());
    CHECK(PlaceOf(ValidateMessage(m)) == c.place);
  }
  // Presence: left out, or 0 as an encoder without presence writes it.
  v1::ControllerMessage m = GoodPrepare();
  m.mutable_prepare()->mutable_measure()->mutable_workload()->set_rate(0);
  CHECK(PlaceOf(ValidateMessage(m)) == "OK");
}

TEST_CASE("paths and names are checked on the wire") {
  v1::ControllerMessage m;
  auto& attach = *m.mutable_attach();
  attach.mutable_key()->set_phase(v1::PHASE_KIND_ATTACH);
  attach.set_deadline_ns(1);
  attach.mutable_target()->mutable_file()->set_dir("relative");
  CHECK(PlaceOf(ValidateMessage(m)) == "attach.target.file.dir");
  attach.mutable_target()->mutable_file()->set_dir("/srv\x01");
  CHECK(PlaceOf(ValidateMessage(m)) == "attach.target.file.dir");
  attach.mutable_target()->mutable_file()->clear_dir();
  CHECK(PlaceOf(ValidateMessage(m)) == "attach.target.file.dir");
  attach.mutable_target()->mutable_file()->set_dir("/srv");
  CHECK(PlaceOf(ValidateMessage(m)) == "OK");
  attach.mutable_target()->clear_kind();
  CHECK(PlaceOf(ValidateMessage(m)) == "attach.target.kind");
}

TEST_CASE("an empty message of each kind is checked, not trusted") {
  CHECK(PlaceOf(ValidateMessage(v1::AgentMessage())) == "body");
  CHECK(PlaceOf(ValidateMessage(v1::ControllerMessage())) == "body");
  CHECK(PlaceOf(ValidateMessage(v1::ReportAck())) == "OK");
  CHECK(PlaceOf(ValidateMessage(v1::Beat())) == "OK");
}

}  // namespace
}  // namespace muster
