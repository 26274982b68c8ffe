#include "common/wire/rules.h"

#include <catch2/catch.hpp>
#include <thread>

#include "common/base/status.h"
#include "muster/v1/campaign.pb.h"
#include "muster/v1/common.pb.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;

template <typename M>
const FieldDescriptor& Field(const char* name) {
  const FieldDescriptor* field = M::descriptor()->FindFieldByName(name);
  REQUIRE(field != nullptr);
  return *field;
}

template <typename M>
absl::Status Set(M& message, const char* field, std::string_view text) {
  return SetScalar(message, Field<M>(field), text);
}

std::string CodeOf(const absl::Status& status) {
  return status.ok() ? "OK" : GetErrorInfo(status).code;
}

TEST_CASE("RuleOf parses limits into the base unit") {
  const FieldRule& block = RuleOf(Field<v1::Workload>("block"));
  CHECK(block.min == 512.0);
  CHECK(block.max == 64.0 * 1024 * 1024);
  CHECK(block.rule.default_() == "4KiB");
  CHECK(RuleOf(Field<v1::Campaign>("interval")).min == 1e8);
  CHECK(RuleOf(Field<v1::NullTarget>("errors")).max == 1.0);
  CHECK(RuleOf(Field<v1::Campaign>("targets")).max == 256.0);
  CHECK_FALSE(RuleOf(Field<v1::Campaign>("seed")).min.has_value());
  CHECK(&RuleOf(Field<v1::Workload>("block")) == &block);
}

TEST_CASE("RuleOf answers many threads alike") {
  std::vector<const FieldRule*> seen(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < seen.size(); ++t) {
    threads.emplace_back([&seen, t] {
      const auto& type = *v1::Workload::descriptor();
      for (int i = 0; i < type.field_count(); ++i) seen[t] = &RuleOf(*type.field(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const FieldRule* rule : seen) CHECK(rule == seen[0]);
}

TEST_CASE("SetScalar types text by unit") {
  v1::Workload w;
  REQUIRE(Set(w, "block", "64K").ok());
  CHECK(w.block() == 65536);
  REQUIRE(Set(w, "read", "70%").ok());
  CHECK(w.read() == 0.7);
  REQUIRE(Set(w, "rate", "10k/s").ok());
  CHECK(w.rate() == 10000);
  REQUIRE(Set(w, "overload_after", "1m30s").ok());
  CHECK(w.overload_after() == 90'000'000'000u);
  REQUIRE(Set(w, "pattern", "sequential").ok());
  CHECK(w.pattern() == v1::PATTERN_SEQUENTIAL);
  REQUIRE(Set(w, "max_outstanding", "32768").ok());
  CHECK(w.max_outstanding() == 32768);

  v1::Precondition p;
  REQUIRE(Set(p, "fill", "2x").ok());
  CHECK(p.fill() == 2);
  REQUIRE(Set(p, "fill", "0x").ok());
  CHECK(p.fill() == 0);
  CHECK(p.has_fill());

  v1::Sweep s;
  REQUIRE(Set(s, "load", "1T4Q").ok());
  REQUIRE(Set(s, "load", "16T16Q").ok());
  CHECK(s.load_size() == 2);
  REQUIRE(Set(s, "initiators", "24").ok());
  CHECK(s.initiators(0) == 24);

  v1::FileTarget f;
  REQUIRE(Set(f, "files", "per_stream").ok());
  CHECK(f.files() == v1::FILE_LAYOUT_PER_STREAM);
  REQUIRE(Set(f, "direct", "true").ok());
  CHECK(f.direct());
  REQUIRE(Set(f, "dir", "/srv/x y").ok());
}

TEST_CASE("SetScalar refuses what is not written as it must be") {
  v1::Workload w;
  v1::Initiators n;
  v1::FileTarget f;
  v1::Step s;
  struct Case {
    absl::Status status;
    const char* code;
    const char* says;
  };
  const std::vector<Case> cases{
      {Set(n, "count", "010"), "UNIT_SYNTAX", "write 10"},
      {Set(n, "count", "00"), "UNIT_SYNTAX", "write 0"},
      {Set(n, "count", "0x10"), "UNIT_SYNTAX", "digits only"},
      {Set(n, "count", "1e3"), "UNIT_SYNTAX", "digits only"},
      {Set(n, "count", "1_000"), "UNIT_SYNTAX", "digits only"},
      {Set(n, "count", "-1"), "UNIT_SYNTAX", "digits only"},
      {Set(n, "count", ""), "UNIT_SYNTAX", "empty"},
      {Set(n, "count", "0"), "UNIT_RANGE", "from 1 to 4096"},
      {Set(n, "count", "4097"), "UNIT_RANGE", "from 1 to 4096"},
      {Set(n, "count", "99999999999999999999"), "UNIT_RANGE", "at most"},
      {Set(w, "block", "511"), "UNIT_RANGE", "from 512 to 64MiB"},
      {Set(w, "block", "65MiB"), "UNIT_RANGE", "from 512 to 64MiB"},
      {Set(w, "block", "4KiC"), "UNIT_SYNTAX", "4KiB"},
      {Set(w, "read", "70"), "UNIT_SYNTAX", "%"},
      {Set(w, "rate", "10k"), "UNIT_SYNTAX", "/s"},
      {Set(w, "overload_after", "30"), "UNIT_SYNTAX", "unit"},
      {Set(w, "rate", "200M/s"), "UNIT_RANGE", "from 1/min to 100M/s"},
      {Set(w, "rate", "2G/s"), "UNIT_RANGE", "from 1/min to 100M/s"},
      {Set(w, "rate", "0/s"), "UNIT_RANGE", "from 1/min to 100M/s"},
      {Set(w, "block", "99999999999TiB"), "UNIT_RANGE", "from 512 to 64MiB"},
      {Set(w, "overload_after", "99999999h"), "UNIT_RANGE", "from 100ms to 1h"},
      {Set(w, "overload_after", "50ms"), "UNIT_RANGE", "from 100ms to 1h"},
      {Set(w, "pattern", "rnadom"), "ENUM_UNKNOWN", "sequential, random"},
      {Set(w, "pattern", "Random"), "ENUM_UNKNOWN", "sequential, random"},
      {Set(w, "pattern", "unspecified"), "ENUM_UNKNOWN", "sequential, random"},
      {Set(f, "direct", "yes"), "UNIT_SYNTAX", "write true"},
      {Set(f, "direct", "Off"), "UNIT_SYNTAX", "write false"},
      {Set(f, "direct", "maybe"), "UNIT_SYNTAX", "neither true nor false"},
      {Set(f, "dir", "srv"), "UNIT_SYNTAX", "absolute"},
      {Set(f, "dir", "/a\nb"), "UNIT_SYNTAX", "control character"},
      {Set(f, "dir", "/" + std::string(4000, 'a')), "UNIT_RANGE", "4001 bytes"},
      {Set(s, "load", "16Q16T"), "UNIT_SYNTAX", "16T16Q"},
      {Set(s, "name", "-x"), "UNIT_SYNTAX", "name"},
      {Set(s, "name", ""), "UNIT_SYNTAX", "empty"},
      {Set(s, "name", std::string(65, 'a')), "UNIT_RANGE", "64"},
      {Set(s, "measure", "4"), "WRONG_TYPE", "no single value"},
  };
  for (const Case& c2 : cases) {
    INFO(FormatError(c2.status));
    CHECK(CodeOf(c2.status) == c2.code);
    CHECK(GetErrorInfo(c2.status).message.find(c2.says) != std::string::npos);
    CHECK(GetErrorInfo(c2.status).place.empty());
  }
  CHECK(GetErrorInfo(Set(w, "pattern", "rnadom")).next == "Did you mean \"random\"?");
  CHECK(w.ByteSizeLong() == 0);  // nothing refused was stored
}

TEST_CASE("FormatField writes what SetScalar reads") {
  v1::Workload w;
  for (const char* text : {"512B", "4KiB", "1536KiB", "64MiB"}) {
    REQUIRE(Set(w, "block", text).ok());
    CHECK(FormatField(w, Field<v1::Workload>("block")) == text);
  }
  for (const char* text : {"0%", "0.5%", "33.3%", "70%", "70.1%", "99.9999%", "100%"}) {
    REQUIRE(Set(w, "read", text).ok());
    CHECK(FormatField(w, Field<v1::Workload>("read")) == text);
  }
  for (const char* text : {"1/min", "59/min", "1/s", "999/s", "10k/s", "1500/s", "1M/s", "0.123/s", "12345.75/s"}) {
    REQUIRE(Set(w, "rate", text).ok());
    v1::Workload back;
    const std::string formatted = FormatField(w, Field<v1::Workload>("rate"));
    INFO(text << " -> " << formatted);
    REQUIRE(Set(back, "rate", formatted).ok());
    CHECK(back.rate() == w.rate());
  }
  w.set_rate(10000);
  CHECK(FormatField(w, Field<v1::Workload>("rate")) == "10k/s");
  w.set_pattern(v1::PATTERN_RANDOM);
  CHECK(FormatField(w, Field<v1::Workload>("pattern")) == "random");

  v1::Sweep s;
  s.add_initiators(1);
  s.add_initiators(24);
  CHECK(FormatField(s, Field<v1::Sweep>("initiators")) == "[1, 24]");
  CHECK(FormatElement(s, Field<v1::Sweep>("initiators"), 1) == "24");

#if !defined(__SANITIZE_THREAD__)  // messages with a map have another layout there than in the packaged libprotobuf
  v1::Campaign c;
  (*c.mutable_targets())["b"].mutable_file()->set_dir("/srv/a b");
  (*c.mutable_targets())["a"].mutable_null()->set_hang(true);
  // A false that is not the default is written, or it would come back as true.
  CHECK(FormatField(c, Field<v1::Campaign>("targets")) ==
        "{a: {null: {errors: 0%, queue_limit: 0, hang: true}}, "
        "b: {file: {dir: \"/srv/a b\", direct: false, keep: false}}}");
#endif
  v1::Fact fact;
  fact.set_value("say \"hi\"\nnull");
  CHECK(FormatField(fact, Field<v1::Fact>("value")) == "\"say \\\"hi\\\"\\nnull\"");
}

TEST_CASE("EnumText drops the prefix of the type") {
  CHECK(EnumText(*v1::FileLayout_descriptor()->FindValueByNumber(2)) == "per_initiator");
  CHECK(EnumText(*v1::OnAgentLoss_descriptor()->FindValueByNumber(1)) == "abort");
}

TEST_CASE("DidYouMean finds near names only") {
  const std::vector<std::string> choices{"name", "targets", "initiators", "steps", "size", "size_per_initiator"};
  CHECK(DidYouMean("initiator", choices) == "initiators");
  CHECK(DidYouMean("tragets", choices) == "targets");
  CHECK(DidYouMean("stpes", choices) == "steps");
  CHECK(DidYouMean("size_per", choices) == "size_per_initiator");
  CHECK(DidYouMean("steps_of_it", choices) == "steps");
  CHECK(DidYouMean("iscsi", choices).empty());
  CHECK(DidYouMean("chap", choices).empty());
  CHECK(DidYouMean("", choices).empty());
  CHECK(DidYouMean(std::string(100'000, 'x'), choices).empty());
  CHECK(DidYouMean("x", {}).empty());
}

TEST_CASE("QuoteText is safe on one line") {
  CHECK(QuoteText("a\nb\x1f") == "\"a\\x0ab\\x1f\"");
  CHECK(QuoteText(std::string(50, 'a')) == "\"" + std::string(40, 'a') + "...\"");
  // A character is not cut in two.
  CHECK(QuoteText(std::string(39, 'a') + "\xC3\xA4\xC3\xA4") == "\"" + std::string(39, 'a') + "...\"");
}

}  // namespace
}  // namespace muster
