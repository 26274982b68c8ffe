#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/status.h"
#include "controller/report/csv_row.h"
#include "tests/unit/report/run_support.h"

namespace muster::test {
namespace {

using Json = nlohmann::ordered_json;

// ---- CSV read back by the rules of RFC 4180

std::vector<std::vector<std::string>> ParseCsv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        row.back() += '"';
        ++i;
      } else if (c == '"') {
        quoted = false;
      } else {
        row.back() += c;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\n') {
      rows.push_back(std::move(row));
      row.assign(1, "");
    } else {
      row.back() += c;
    }
  }
  CHECK_FALSE(quoted);
  CHECK(row == std::vector<std::string>(1));  // the last line is ended
  return rows;
}

std::vector<std::map<std::string, std::string>> Records(const std::string& text) {
  const auto rows = ParseCsv(text);
  std::vector<std::map<std::string, std::string>> out;
  for (size_t i = 1; i < rows.size(); ++i) {
    REQUIRE(rows[i].size() == rows[0].size());
    for (size_t k = 0; k < rows[i].size(); ++k) out.resize(i), out[i - 1][rows[0][k]] = rows[i][k];
  }
  return out;
}

void CheckLatency(const std::map<std::string, std::string>& record, const std::string& name, const Histogram& h,
                  uint64_t max) {
  CHECK(record.at(name + "_count") == std::to_string(h.count()));
  if (h.count() == 0) {
    CHECK(record.at(name + "_mean_ns").empty());
    CHECK(record.at(name + "_max_ns").empty());
    return;
  }
  CHECK(std::stod(record.at(name + "_mean_ns")) == h.moments().Mean());
  CHECK(std::stod(record.at(name + "_stddev_ns")) == h.moments().StandardDeviation());
  CHECK(record.at(name + "_min_ns") == std::to_string(h.moments().min));
  CHECK(record.at(name + "_max_ns") == std::to_string(max));
  const Quantile p99 = h.At(0.99);
  CHECK(record.at(name + "_p99_ns") == (p99.enough ? std::to_string(p99.value) : ""));
}

TEST_CASE("CSV read back is what was stored") {
  auto run = MakeRandomRun();
  const auto records = Records(ExportText(*run->reader, ExportFormat::kCsv));
  size_t at = 0;
  for (const StepResult& result : run->results) {
    std::vector<const GroupFigures*> groups = {&result.figures.fleet};
    for (const GroupFigures& group : result.figures.initiators) groups.push_back(&group);
    for (const LostFigures& lost : result.figures.lost) groups.push_back(&lost.group);
    for (const GroupFigures* group : groups) {
      const int seconds = group->name == "lost" ? 6 : 16;  // 3 and 8 intervals of 2 s
      for (const KindFigures& kind : group->kinds) {
        REQUIRE(at < records.size());
        const auto& record = records[at++];
        CHECK(record.at("run") == "random");
        CHECK(record.at("step") == result.step.name);
        CHECK(record.at("sweep_point") == "initiators=2;load=1T4Q");
        CHECK(record.at("group") == group->name);
        CHECK(record.at("kind") == (kind.kind.has_value() ? std::string(OpKindName(*kind.kind)) : "all"));
        CHECK(record.at("completed") == std::to_string(kind.completed));
        CHECK(record.at("bytes") == std::to_string(kind.bytes));
        CHECK(std::stod(record.at("iops")) == static_cast<double>(kind.completed) / seconds);
        CHECK(std::stod(record.at("rate_per_second")) == 12345.5);
        CheckLatency(record, "response", kind.response, kind.response_max);
        CheckLatency(record, "wait", kind.wait, kind.wait.moments().max);
        CheckLatency(record, "service", kind.service, kind.service.moments().max);
        if (!kind.kind.has_value()) {
          CHECK(std::stod(record.at("achieved_depth")) == group->achieved_depth);
          CHECK(std::stod(record.at("wire_depth")) == group->wire_depth);
        }
      }
    }
  }
  CHECK(at == records.size());
}

TEST_CASE("CSV of intervals: fleet and initiators, all and by kind") {
  auto run = MakeKnownRun();
  const auto records = Records(ExportText(*run->reader, ExportFormat::kCsvIntervals));
  REQUIRE(records.size() == 3 * (3 + 2 * 3));
  CHECK(records[0].at("group") == "fleet");
  CHECK(records[0].at("kind") == "all");
  CHECK(records[0].at("completed") == "4000");
  CHECK(records[0].at("in_window") == "0");
  CHECK(records[9].at("in_window") == "1");
  CHECK(records[3].at("group") == "0");
  CHECK(records[3].at("completed") == "2000");
  CHECK(records[3].at("achieved_depth") == "16");
  CHECK(records[4].at("kind") == "read");
  CHECK(records[4].at("response_p50_ns") == "100000");
}

TEST_CASE("CSV quoting by RFC 4180") {
  std::ostringstream out;
  { CsvRow(out).Text("plain").Text("a,b").Text("say \"x\"").Text("two\nlines").Empty(2).Whole(7).Number(0.1); }
  CHECK(out.str() == "plain,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",,,7,0.1\n");
}

// ---- JSON

void CheckLatency(const Json& json, const Histogram& h, bool counters) {
  CHECK(json["count"] == h.count());
  CHECK(json["sum_ns"] == h.moments().sum);
  CHECK(json["sum_squares_ns2"] == Uint128ToString(h.moments().sum_squares));
  CHECK(json["overflow"] == h.moments().overflow);
  CHECK(json["min_ns"] == (h.count() == 0 ? Json(nullptr) : Json(h.moments().min)));
  CHECK(json["max_ns"] == (h.count() == 0 ? Json(nullptr) : Json(h.moments().max)));
  const Quantile p99 = h.At(0.99);
  CHECK(json["percentiles"]["p99_ns"] == (p99.enough ? Json(p99.value) : Json(nullptr)));
  CHECK(json.contains("counters") == counters);
  if (!counters) return;
  // Values name their counters: the histogram can be built again.
  std::map<uint32_t, uint64_t> expected, got;
  h.ForEach([&](uint32_t index, uint64_t count) { expected[index] = count; });
  for (const Json& pair : json["counters"]) got[hist::IndexOf(pair[0].get<uint64_t>())] = pair[1].get<uint64_t>();
  CHECK(got == expected);
}

void CheckGroup(const Json& json, const GroupFigures& group, bool counters) {
  CHECK(json["name"] == group.name);
  CHECK(json["achieved_depth"].get<double>() == group.achieved_depth);
  REQUIRE(json["kinds"].size() == group.kinds.size());
  for (size_t i = 0; i < group.kinds.size(); ++i) {
    const KindFigures& kind = group.kinds[i];
    CHECK(json["kinds"][i]["completed"] == kind.completed);
    CHECK(json["kinds"][i]["bytes"] == kind.bytes);
    CHECK(json["kinds"][i]["failed"] == kind.failed);
    CHECK(json["kinds"][i]["response_max_ns"] == kind.response_max);
    CheckLatency(json["kinds"][i]["response"], kind.response, counters);
    CheckLatency(json["kinds"][i]["wait"], kind.wait, counters);
    CheckLatency(json["kinds"][i]["service"], kind.service, counters);
  }
  CheckLatency(json["lateness"], group.lateness, counters);
}

void CheckRun(const Json& json, const RandomRun& run, bool everything) {
  CHECK(json["format"] == "muster-run");
  CHECK(json["version"] == 2);
  CHECK(json["run"]["id"] == "random");
  CHECK(json["agents"][0]["hostname"] == "nas?");
  REQUIRE(json["steps"].size() == run.results.size());
  for (size_t i = 0; i < run.results.size(); ++i) {
    const Json& step = json["steps"][i];
    const StepResult& result = run.results[i];
    CHECK(step["name"] == result.step.name);
    CHECK(step["outcome"] == StepOutcomeName(result.outcome));
    CHECK(step["workload"]["read_share"].get<double>() == 0.7);
    CHECK(step["window"]["intervals"] == 8);
    CHECK(step["window"]["window_ns"] == 16 * kSecond);
    CheckGroup(step["fleet"], result.figures.fleet, everything);
    REQUIRE(step["initiators"].size() == result.figures.initiators.size());
    for (size_t g = 0; g < result.figures.initiators.size(); ++g) {
      CheckGroup(step["initiators"][g], result.figures.initiators[g], everything);
    }
    CHECK(step["missing_count"] == 70);
    CHECK(step["errors"].size() == 3);
    CHECK(step["checks"][2]["outcome"] == "not evaluated");
    CHECK(step["outstanding_at_end"]["operations"].size() == 2);
    CHECK_THAT(step["sums_error"].get<std::string>(), Catch::Contains("SUMS_MISMATCH"));
    CHECK(step.contains("intervals") == everything);
  }
}

TEST_CASE("JSON read back is what was stored, without and with counters and intervals") {
  auto run = MakeRandomRun();
  auto text = RunJson(*run->reader);
  REQUIRE(text.ok());
  CheckRun(Json::parse(*text), *run, false);
  const Json all = Json::parse(ExportText(*run->reader, ExportFormat::kJsonHistograms));
  CheckRun(all, *run, true);
  CHECK(all["run"]["campaign_text"] == Header("x").campaign_text);
  CHECK(all["steps"][1]["intervals"].empty());
  const Json& intervals = all["steps"][0]["intervals"];
  REQUIRE(intervals.size() == run->intervals.size());
  for (size_t i = 0; i < intervals.size(); ++i) {
    const FleetInterval& stored = run->intervals[i];
    CHECK(intervals[i]["interval"] == stored.interval);
    CheckLatency(intervals[i]["kinds"][0]["response"], stored.kinds[0].response, true);
    CheckLatency(intervals[i]["kinds"][1]["wait"], stored.kinds[1].wait, true);
    REQUIRE(intervals[i]["initiators"].size() == stored.initiators.size());
    CHECK(intervals[i]["initiators"][2]["offered_integral_op_ns"] ==
          Uint128ToString(stored.initiators[2].offered_integral));
    // Both parts of the open loop together.
    Histogram both;
    for (const KindDelta& kind : stored.initiators[0].kinds) REQUIRE(both.Merge(kind.response).ok());
    CheckLatency(intervals[i]["initiators"][0]["kinds"][0]["response"], both, true);
  }
}

TEST_CASE("JSON without the option: every figure, histograms of the window packed, none of the intervals") {
  auto run = MakeRandomRun();
  const std::string text = ExportText(*run->reader, ExportFormat::kJson);
  CHECK(text.size() * 3 < ExportText(*run->reader, ExportFormat::kJsonHistograms).size());
  CHECK(text.find("\"counters\":[[") == std::string::npos);
  Json little = Json::parse(text);
  // The same as the whole one but for the histograms themselves.
  Json whole = Json::parse(ExportText(*run->reader, ExportFormat::kJsonHistograms));
  const std::function<void(Json&)> strip = [&](Json& json) {
    if (json.is_object()) {
      if (json.contains("sum_squares_ns2")) json.erase("counters"), json.erase("histogram");
    }
    for (Json& member : json) {
      if (member.is_structured()) strip(member);
    }
  };
  for (size_t i = 0; i < run->results.size(); ++i) {
    std::vector<std::pair<const Json*, const GroupFigures*>> groups;
    groups.emplace_back(&little["steps"][i]["fleet"], &run->results[i].figures.fleet);
    for (size_t g = 0; g < run->results[i].figures.initiators.size(); ++g) {
      groups.emplace_back(&little["steps"][i]["initiators"][g], &run->results[i].figures.initiators[g]);
    }
    for (const auto& [json, group] : groups) {
      for (size_t k = 0; k < group->kinds.size(); ++k) {
        const Histogram& response = group->kinds[k].response;
        const Json& told = (*json)["kinds"][k]["response"];
        CHECK(told.contains("histogram") == (response.count() > 0));
        if (response.count() > 0) CHECK(told["histogram"] == *HlogWriter::CompressedBase64(response));
      }
    }
  }
  CHECK_FALSE(little["steps"][0]["intervals"][0]["kinds"][0]["response"].contains("histogram"));
  strip(little);
  strip(whole);
  CHECK(little == whole);
  CHECK(*ParseExportFormat("json-histograms") == ExportFormat::kJsonHistograms);
}

TEST_CASE("keys stay in their order") {
  auto run = MakeKnownRun();
  const std::string text = *RunJson(*run->reader);
  CHECK(text == *RunJson(*run->reader));
  size_t at = 0;
  for (const char* key :
       {"\n \"format\"", "\n \"version\"", "\n \"run\"", "\n \"agents\"", "\n \"events\"", "\n \"steps\""}) {
    const size_t found = text.find(key);
    CHECK(found != std::string::npos);
    CHECK(found >= at);
    at = found;
  }
  const Json list = Json::parse(RunListJson({*run->reader->Summary()}));
  CHECK(list["runs"][0]["id"] == "known");
  CHECK(list["runs"][0]["steps"] == 2);
}

// ---- hlog

TEST_CASE("hlog: one line a step, interval and kind, laid end to end") {
  auto run = MakeKnownRun();
  std::istringstream text(ExportText(*run->reader, ExportFormat::kHlog));
  std::vector<std::string> lines;
  std::string tags;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("Tag=", 0) == 0) lines.push_back(line);
  }
  REQUIRE(lines.size() == 6);
  CHECK_THAT(lines[0], Catch::StartsWith("Tag=db[initiators=2;load=2T8Q]/read,0.000,1.000,0.100,"));
  CHECK_THAT(lines[1], Catch::StartsWith("Tag=db[initiators=2;load=2T8Q]/write,0.000,1.000,0.300,"));
  CHECK_THAT(lines[5], Catch::StartsWith("Tag=db[initiators=2;load=2T8Q]/write,2.000,1.000,"));
  Histogram expected;
  REQUIRE(expected.RecordMany(100'000, 2000).ok());
  CHECK(lines[0].substr(lines[0].rfind(',') + 1) == *HlogWriter::CompressedBase64(expected));
}

// ---- Files

TEST_CASE("an export file is whole or as it was") {
  auto run = MakeKnownRun();
  const std::string dir = run->dir.path() + "/out";
  std::filesystem::create_directory(dir);
  const std::string path = dir + "/result.csv";
  std::ofstream(path) << "old";
  REQUIRE(ExportToFile(*run->reader, ExportFormat::kCsv, path).ok());
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  CHECK(content.str() == ExportText(*run->reader, ExportFormat::kCsv));
  CHECK(std::distance(std::filesystem::directory_iterator(dir), {}) == 1);  // no temporary file is left

  const absl::Status status = ExportToFile(*run->reader, ExportFormat::kCsv, dir + "/no/such.csv");
  CHECK(GetErrorInfo(status).code == "EXPORT_FAILED");
  CHECK(GetErrorInfo(status).place == dir + "/no/such.csv");
  // A folder stands in the way: nothing is left beside it.
  std::filesystem::create_directory(dir + "/taken");
  CHECK(GetErrorInfo(ExportToFile(*run->reader, ExportFormat::kCsv, dir + "/taken")).code == "EXPORT_FAILED");
  CHECK(std::distance(std::filesystem::directory_iterator(dir), {}) == 2);
  CHECK(GetErrorInfo(ParseExportFormat("xml").status()).code == "FORMAT_UNKNOWN");
  CHECK(*ParseExportFormat("csv-intervals") == ExportFormat::kCsvIntervals);
}

TEST_CASE("a full device is told, not swallowed") {
  auto run = MakeKnownRun();
  std::ofstream full("/dev/full");
  CHECK(GetErrorInfo(Export(*run->reader, ExportFormat::kJson, full)).code == "EXPORT_FAILED");
}

}  // namespace
}  // namespace muster::test
