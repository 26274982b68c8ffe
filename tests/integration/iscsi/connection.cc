#include "tests/integration/iscsi/connection.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "common/base/rng.h"
#include "common/base/status.h"

namespace muster::test {

IscsiConnectionSpec SpecFor(uint16_t port) {
  IscsiConnectionSpec spec;
  spec.host = "127.0.0.1";
  spec.port = port;
  spec.target = kTarget;
  spec.initiator = kInitiator;
  spec.luns = {1};
  return spec;
}

Connection::Connection(IscsiConnectionSpec spec, uint32_t depth, uint32_t buffer_bytes)
    : backend_(MakeIscsiBackend(std::move(spec))), depth_(depth), buffer_bytes_(buffer_bytes) {
  pool_ = static_cast<uint8_t*>(std::aligned_alloc(4096, size_t{depth} * buffer_bytes));
  std::memset(pool_, 0, size_t{depth} * buffer_bytes);
}

Connection::~Connection() {
  backend_->Close();
  std::free(pool_);
}

absl::Status Connection::TryOpen(std::vector<BackendObject> objects, Nanos patience) {
  return backend_->Open(objects, {}, {.depth = depth_, .op_timeout = op_timeout}, SteadyClock::Get().Now() + patience);
}

void Connection::Open(std::vector<BackendObject> objects) {
  const absl::Status status = TryOpen(std::move(objects));
  INFO(FormatError(status));
  REQUIRE(status.ok());
}

IoOp Connection::Op(IoKind kind, uint64_t offset, uint32_t bytes, uint32_t i) {
  return {.offset = offset, .buffer = buffer(i), .tag = i, .bytes = bytes, .kind = kind};
}

void Connection::Overdue() {
  throw std::runtime_error("what the test waits for did not happen within a minute");
}

void Connection::TakeOne(Nanos deadline) {
  std::array<IoCompletion, 1> out;
  if (backend_->Reap(out, SteadyClock::Get().Now()) == 1) {
    kept_.push_back(out[0]);
    return;
  }
  backend_->WaitUntil(std::min(deadline, SteadyClock::Get().Now() + 10 * kMillisecond));
}

void Connection::SubmitAll(std::vector<IoOp> ops) {
  std::span<const IoOp> left(ops);
  const Nanos deadline = SteadyClock::Get().Now() + kMinute;
  for (;;) {
    left = left.subspan(backend_->Submit(left, SteadyClock::Get().Now()));
    if (left.empty()) return;
    if (SteadyClock::Get().Now() > deadline) Overdue();
    TakeOne(deadline);
  }
}

std::vector<IoCompletion> Connection::Collect(size_t count) {
  DriveUntil([&] { return kept_.size() >= count; });
  std::vector<IoCompletion> out(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(count));
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(count));
  return out;
}

std::vector<IoCompletion> Connection::Run(const std::vector<IoOp>& ops) {
  SubmitAll(ops);
  return Collect(ops.size());
}

uint64_t Connection::Counter(const std::string& name) {
  for (const auto& [key, count] : backend_->Counters()) {
    if (key == name) return count;
  }
  return 0;
}

std::string Connection::Parameter(const std::string& name) {
  for (const auto& [key, value] : backend_->Describe().parameters) {
    if (key == name) return value;
  }
  return {};
}

std::string CodeOf(const absl::Status& status, const IscsiConnectionSpec& spec) {
  if (status.ok()) return {};
  const ErrorInfo info = GetErrorInfo(status);
  const std::string text = FormatError(status);
  INFO(text);
  CHECK(text.find(std::to_string(spec.port)) != std::string::npos);
  CHECK(text.find(spec.target) != std::string::npos);
  CHECK_FALSE(info.message.empty());
  CHECK_FALSE(info.next.empty());
  for (const std::string& secret : {spec.secret, spec.mutual_secret}) {
    if (!secret.empty()) CHECK(text.find(secret) == std::string::npos);
  }
  return info.code;
}

void FillRandom(uint8_t* begin, size_t bytes, uint64_t seed) {
  Rng rng(seed);
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = rng.Next();
    std::memcpy(begin + i, &word, 8);
  }
}

std::vector<uint8_t> ReadFile(const std::string& path, uint64_t offset, size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> out(bytes);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(bytes));
  if (!file) throw std::runtime_error("read " + path);
  return out;
}

}  // namespace muster::test
