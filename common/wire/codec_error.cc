#include <fmt/format.h>

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/text.h"

namespace muster {
namespace {

// Limits of the fields' rules in common.proto; an error must never be refused for its own length.
constexpr size_t kCodeMax = 64;
constexpr size_t kTextMax = 4096;
constexpr size_t kFactNameMax = 128;

bool IsErrorCode(uint32_t kind) {
  return kind >= 1 && kind <= static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
}

}  // namespace

v1::Error ToProto(const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status);
  v1::Error error;
  error.set_kind(static_cast<uint32_t>(status.code()));
  error.set_code(WireText(info.code, kCodeMax));
  error.set_place(WireText(info.place, kTextMax));
  error.set_message(WireText(info.message, kTextMax));
  error.set_next(WireText(info.next, kTextMax));
  return error;
}

absl::Status FromProto(const v1::Error& error) {
  const absl::StatusCode kind =
      IsErrorCode(error.kind()) ? static_cast<absl::StatusCode>(error.kind()) : absl::StatusCode::kUnknown;
  return MakeError(kind,
                   {.code = error.code(), .place = error.place(), .message = error.message(), .next = error.next()});
}

void ToProto(const Facts& facts, size_t limit, google::protobuf::RepeatedPtrField<v1::Fact>* out) {
  const size_t kept = facts.size() <= limit ? facts.size() : limit - 1;
  for (size_t i = 0; i < kept; ++i) {
    const auto& [name, value] = facts[i];
    v1::Fact* fact = out->Add();
    fact->set_name(WireText(name, kFactNameMax));
    fact->set_value(WireText(value, kTextMax));
  }
  if (kept == facts.size()) return;
  v1::Fact* rest = out->Add();
  rest->set_name("left out");
  rest->set_value(fmt::format("{} facts more than a message carries", facts.size() - kept));
}

Facts FromProto(const google::protobuf::RepeatedPtrField<v1::Fact>& facts) {
  Facts out;
  out.reserve(facts.size());
  for (const v1::Fact& fact : facts) out.emplace_back(fact.name(), fact.value());
  return out;
}

}  // namespace muster
