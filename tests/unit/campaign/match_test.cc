// initiators: {match: {...}}: the one map of names to texts in a campaign.
#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "controller/campaign/campaign.h"

namespace muster {
namespace {

std::string Text(const std::string& match) {
  return "name: m\ntargets: {cal: {null: {}}}\ninitiators: {count: 2, match: " + match +
         "}\nsteps: [{name: one, target: cal, workload: {size: 1MiB}}]\n";
}

absl::Status Read(const std::string& match) {
  const auto loaded = LoadCampaignText("m.yaml", Text(match));
  return loaded.ok() ? Compile(*loaded).status() : loaded.status();
}

TEST_CASE("labels to match are read as they stand") {
  const auto loaded = LoadCampaignText("m.yaml", Text("{rack: b, net: 010}"));
  INFO(FormatError(loaded.status()));
  REQUIRE(loaded.ok());
  const auto& match = loaded->message.initiators().match();
  CHECK(match.size() == 2);
  CHECK(match.at("rack") == "b");
  CHECK(match.at("net") == "010");
  CHECK(loaded->message.initiators().count() == 2);
  CHECK(Compile(*loaded).ok());
  CHECK(Read("{}").ok());
}

TEST_CASE("what no agent can have is an error at its place") {
  for (const auto& [match, code] : {std::pair("{rack: 'b c'}", "LABEL_SYNTAX"),
                                    {"{rack: ''}", "LABEL_SYNTAX"},
                                    {"{rack: }", "NULL_VALUE"},
                                    {"{'ra ck': b}", "UNIT_SYNTAX"},
                                    {"{rack: [a, b]}", "WRONG_TYPE"},
                                    {"rack", "WRONG_TYPE"}}) {
    const absl::Status status = Read(match);
    INFO(match << " " << FormatError(status));
    CHECK(GetErrorInfo(status).code == code);
    CHECK(GetErrorInfo(status).place.starts_with("m.yaml:3:"));
  }
}

TEST_CASE("help tells what it takes") {
  CHECK(CampaignHelp(false).find("NAME: text, ...") != std::string::npos);
}

}  // namespace
}  // namespace muster
