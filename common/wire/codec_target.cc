#include <fmt/format.h>

#include "common/wire/codec.h"
#include "common/wire/codec_iscsi.h"
#include "common/wire/invalid.h"

namespace muster {
namespace {

absl::StatusOr<Nanos> Duration(uint64_t nanos, const char* field) {
  if (nanos > static_cast<uint64_t>(kNever)) return InvalidField(field, fmt::format("{} ns is no duration", nanos));
  return static_cast<Nanos>(nanos);
}

absl::StatusOr<NullTarget> Decode(const v1::NullTarget& from) {
  NullTarget out;
  MUSTER_ASSIGN_OR_RETURN(out.latency, Duration(from.latency().mean(), "null.latency.mean"));
  switch (from.latency().shape()) {
    case v1::LATENCY_SHAPE_UNSPECIFIED:
    case v1::LATENCY_SHAPE_CONSTANT:
      out.shape = LatencyShape::kConstant;
      break;
    case v1::LATENCY_SHAPE_UNIFORM:
      out.shape = LatencyShape::kUniform;
      break;
    case v1::LATENCY_SHAPE_EXPONENTIAL:
      out.shape = LatencyShape::kExponential;
      break;
    default:
      return InvalidField("null.latency.shape", "unknown shape");
  }
  out.stalls.reserve(from.stalls_size());
  for (const v1::NullStall& stall : from.stalls()) {
    MUSTER_ASSIGN_OR_RETURN(const Nanos at, Duration(stall.at(), "null.stalls.at"));
    MUSTER_ASSIGN_OR_RETURN(const Nanos duration, Duration(stall.for_(), "null.stalls.for"));
    out.stalls.push_back({.at = at, .duration = duration});
  }
  // Written so that NaN is refused too.
  if (!(from.errors() >= 0 && from.errors() <= 1)) return InvalidField("null.errors", "is no share between 0 and 1");
  out.error_share = from.errors();
  out.queue_limit = from.queue_limit();
  out.hang = from.hang();
  return out;
}

absl::StatusOr<FileTarget> Decode(const v1::FileTarget& from) {
  FileTarget out;
  out.dir = from.dir();
  switch (from.files()) {
    case v1::FILE_LAYOUT_UNSPECIFIED:
    case v1::FILE_LAYOUT_ONE:
      out.files = FileLayout::kOne;
      break;
    case v1::FILE_LAYOUT_PER_INITIATOR:
      out.files = FileLayout::kPerInitiator;
      break;
    case v1::FILE_LAYOUT_PER_STREAM:
      out.files = FileLayout::kPerStream;
      break;
    default:
      return InvalidField("file.files", "unknown layout");
  }
  out.direct = from.direct();
  out.keep = from.keep();
  return out;
}

BlockTarget Decode(const v1::BlockTarget& from) {
  BlockTarget out;
  out.device = from.device();
  out.direct = from.direct();
  if (from.has_overwrite()) out.overwrite = Overwrite{.id = from.overwrite().id(), .size = from.overwrite().size()};
  return out;
}

struct Encoder {
  v1::Target* out;

  void operator()(const NullTarget& from) const {
    v1::NullTarget* to = out->mutable_null();
    to->mutable_latency()->set_mean(static_cast<uint64_t>(from.latency));
    switch (from.shape) {
      case LatencyShape::kConstant:
        to->mutable_latency()->set_shape(v1::LATENCY_SHAPE_CONSTANT);
        break;
      case LatencyShape::kUniform:
        to->mutable_latency()->set_shape(v1::LATENCY_SHAPE_UNIFORM);
        break;
      case LatencyShape::kExponential:
        to->mutable_latency()->set_shape(v1::LATENCY_SHAPE_EXPONENTIAL);
        break;
    }
    for (const NullStall& stall : from.stalls) {
      v1::NullStall* s = to->add_stalls();
      s->set_at(static_cast<uint64_t>(stall.at));
      s->set_for_(static_cast<uint64_t>(stall.duration));
    }
    to->set_errors(from.error_share);
    to->set_queue_limit(from.queue_limit);
    to->set_hang(from.hang);
  }
  void operator()(const FileTarget& from) const {
    v1::FileTarget* to = out->mutable_file();
    to->set_dir(from.dir);
    switch (from.files) {
      case FileLayout::kOne:
        to->set_files(v1::FILE_LAYOUT_ONE);
        break;
      case FileLayout::kPerInitiator:
        to->set_files(v1::FILE_LAYOUT_PER_INITIATOR);
        break;
      case FileLayout::kPerStream:
        to->set_files(v1::FILE_LAYOUT_PER_STREAM);
        break;
    }
    to->set_direct(from.direct);
    to->set_keep(from.keep);
  }
  void operator()(const BlockTarget& from) const {
    v1::BlockTarget* to = out->mutable_block();
    to->set_device(from.device);
    to->set_direct(from.direct);
    if (from.overwrite) {
      to->mutable_overwrite()->set_id(from.overwrite->id);
      to->mutable_overwrite()->set_size(from.overwrite->size);
    }
  }
  void operator()(const IscsiTarget& from) const { EncodeIscsi(from, *out); }
};

}  // namespace

absl::StatusOr<Target> FromProto(const std::string& name, const v1::Target& target) {
  Target out{.name = name, .kind = {}};
  switch (target.kind_case()) {
    case v1::Target::kNull: {
      MUSTER_ASSIGN_OR_RETURN(out.kind, Decode(target.null()));
      return out;
    }
    case v1::Target::kFile: {
      MUSTER_ASSIGN_OR_RETURN(out.kind, Decode(target.file()));
      return out;
    }
    case v1::Target::kBlock:
      out.kind = Decode(target.block());
      return out;
    case v1::Target::kIscsi: {
      MUSTER_ASSIGN_OR_RETURN(out.kind, DecodeIscsi(target));
      return out;
    }
    case v1::Target::KIND_NOT_SET:
      break;
  }
  return InvalidField("target", fmt::format("target \"{}\" has no kind this version knows", name));
}

v1::Target ToProto(const Target& target) {
  v1::Target out;
  std::visit(Encoder{&out}, target.kind);
  return out;
}

v1::Target ToProtoWithSecrets(const Target& target) {
  v1::Target out = ToProto(target);
  if (const auto* iscsi = std::get_if<IscsiTarget>(&target.kind)) {
    if (!iscsi->secret.reference.empty()) out.mutable_chap()->mutable_secret()->set_value(iscsi->secret.value);
    if (!iscsi->mutual_secret.reference.empty()) {
      out.mutable_chap()->mutable_mutual_secret()->set_value(iscsi->mutual_secret.value);
    }
  }
  return out;
}

}  // namespace muster
