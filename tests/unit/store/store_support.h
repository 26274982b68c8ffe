#pragma once
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "common/base/rng.h"
#include "controller/store/run_store.h"

namespace muster::test {

// A folder that is gone at the end.
class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/muster-store-test-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline RunHeader Header(const std::string& id, int64_t started = 1'700'000'000'000'000) {
  return {.id = id,
          .campaign_name = "spine",
          .campaign_text = "name: spine\nsteps: []\n",
          .build = "0.1.0 (test)",
          .started_wall_micros = started};
}

inline RawReport Report(const std::string& agent, uint64_t sequence, size_t bytes,
                        PhaseKind phase = PhaseKind::kMeasure, uint32_t step = 0) {
  RawReport report;
  report.agent = agent;
  report.sequence = sequence;
  report.key = {.run = "r", .step = step, .phase = phase, .attempt = 0};
  Rng rng(MixSeed(sequence, agent.size()));
  report.bytes.resize(bytes);
  for (char& c : report.bytes) c = static_cast<char>(rng.Next());
  return report;
}

inline std::unique_ptr<RunWriter> MustCreate(const std::string& runs, const RunHeader& header,
                                             const StoreOptions& options = {}) {
  auto writer = RunWriter::Create(runs, header, options);
  INFO(writer.status());
  REQUIRE(writer.ok());
  return *std::move(writer);
}

inline std::unique_ptr<RunReader> MustOpen(const std::string& path) {
  auto reader = RunReader::Open(path);
  INFO(reader.status());
  REQUIRE(reader.ok());
  return *std::move(reader);
}

}  // namespace muster::test
