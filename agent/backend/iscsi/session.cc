#include "agent/backend/iscsi/session.h"

#include <arpa/inet.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "agent/backend/iscsi/errors.h"
#include "agent/backend/iscsi/tap.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

// The six bytes that tell sessions of one initiator apart (RFC 7143 11.12.5), type "random": 24 bits from the
// initiator's name, so that a reconnect reinstates the session, and the qualifier.
uint32_t IsidSeed(std::string_view initiator) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : initiator) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return (hash ^ hash >> 24) & 0xffffff;
}

absl::Status FillSource(const IscsiConnectionSpec& spec, const std::string& portal, LibiscsiTap& tap) {
  if (spec.source_address.empty() && spec.source_port == 0) return absl::OkStatus();
  const bool six = portal.front() == '[';
  auto* const in4 = reinterpret_cast<sockaddr_in*>(&tap.source);
  auto* const in6 = reinterpret_cast<sockaddr_in6*>(&tap.source);
  tap.source_bytes = six ? sizeof *in6 : sizeof *in4;
  if (six) {
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(spec.source_port);
  } else {
    in4->sin_family = AF_INET;
    in4->sin_port = htons(spec.source_port);
  }
  tap.source_port_given = spec.source_port != 0;
  void* const address = six ? static_cast<void*>(&in6->sin6_addr) : &in4->sin_addr;
  if (!spec.source_address.empty() && inet_pton(six ? AF_INET6 : AF_INET, spec.source_address.c_str(), address) != 1) {
    return BindError(spec, EAFNOSUPPORT);
  }
  return absl::OkStatus();
}

absl::Status ProbeRdma(const IscsiConnectionSpec& spec) {
  std::error_code ignored;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", ignored);
  if (ignored || devices == std::filesystem::directory_iterator()) {
    return NoRdmaError(spec, "/sys/class/infiniband has none");
  }
  if (access("/dev/infiniband/rdma_cm", R_OK | W_OK) != 0) {
    return NoRdmaError(spec, fmt::format("/dev/infiniband/rdma_cm: {}", strerrordesc_np(errno)));
  }
  return absl::OkStatus();
}

}  // namespace

struct IscsiSession::Impl {
  struct Slot {
    scsi_task task{};
    scsi_iovec iov{};
    Impl* impl = nullptr;
    uint32_t id = 0;
    bool busy = false;
  };

  iscsi_context* context = nullptr;
  LibiscsiTap tap;
  std::vector<Slot> slots{kMaxCommands};
  Answered answered = nullptr;
  void* owner = nullptr;
  bool dropping = false;
  bool numbered = false;  // a command has gone out: next_cmd_sn is known
  uint32_t next_cmd_sn = 0;
  // What the library's callbacks of connect, login and logout said.
  bool connected = false;
  bool ended = false;  // login or logout
  int end_status = 0;

  static void OnConnect(iscsi_context* context, int status, void* /*data*/, void* self) {
    Impl& impl = *static_cast<Impl*>(self);
    if (status != SCSI_STATUS_GOOD) return;  // Step sees the socket's error
    impl.connected = true;
    if (iscsi_login_async(context, OnEnd, self) != 0) OnEnd(context, SCSI_STATUS_ERROR, nullptr, self);
  }
  static void OnEnd(iscsi_context* /*context*/, int status, void* /*data*/, void* self) {
    Impl& impl = *static_cast<Impl*>(self);
    impl.ended = true;
    impl.end_status = status;
  }
  static void OnAnswer(iscsi_context* /*context*/, int status, void* /*data*/, void* slot) {
    Slot& s = *static_cast<Slot*>(slot);
    if (!s.busy) return;
    s.busy = false;
    ScsiAnswer answer;
    if (status >= 0 && status <= 0xff) {
      answer.delivered = true;
      answer.status = static_cast<uint8_t>(status);
      if (answer.status == kScsiCheckCondition) {
        answer.sense_key = static_cast<uint8_t>(s.task.sense.key);
        answer.asc_ascq = static_cast<uint16_t>(s.task.sense.ascq);
      }
      if (s.task.residual_status == SCSI_RESIDUAL_UNDERFLOW) answer.residual = static_cast<uint32_t>(s.task.residual);
    } else {
      answer.transport_errno = EPROTO;  // rejected, or an answer the library does not accept
    }
    std::free(s.task.datain.data);  // sense bytes; read data goes straight to its buffer
    s.task.datain.data = nullptr;
    if (!s.impl->dropping) s.impl->answered(s.impl->owner, s.id, answer);
  }
};

IscsiSession::IscsiSession(const IscsiConnectionSpec& spec) : spec_(spec), impl_(std::make_unique<Impl>()) {
  for (uint32_t i = 0; i < kMaxCommands; ++i) {
    impl_->slots[i].impl = impl_.get();
    impl_->slots[i].id = i;
  }
}

IscsiSession::~IscsiSession() {
  Drop();
}

void IscsiSession::SetHandler(Answered answered, void* owner) {
  impl_->answered = answered;
  impl_->owner = owner;
}

absl::Status IscsiSession::Start(const std::string& numeric_portal) {
  hops_ = 0;
  return Begin(numeric_portal);
}

absl::Status IscsiSession::Begin(const std::string& numeric_portal) {
  Drop();
  Impl& impl = *impl_;
  impl.tap = {};
  impl.numbered = impl.connected = impl.ended = false;
  failure_ = absl::OkStatus();
  lost_errno_ = 0;
  lost_by_digest_ = false;
  portal_ = numeric_portal;
  ++generation_;
  MUSTER_RETURN_IF_ERROR(FillSource(spec_, portal_, impl.tap));
  if (spec_.transport == IscsiTransport::kIser) MUSTER_RETURN_IF_ERROR(ProbeRdma(spec_));
  impl.context = iscsi_create_context(spec_.initiator.c_str());
  if (impl.context == nullptr) return ProtocolError(spec_, "the library has no memory for a context");
  iscsi_context* const context = impl.context;
  iscsi_set_log_level(context, 0);  // its debug texts show CHAP keys, and the environment could ask for them
  iscsi_set_noautoreconnect(context, 1);
  const bool tcp = spec_.transport == IscsiTransport::kTcp;
  impl.tap.iser.used = !tcp;
  const TapScope scope(&impl.tap);
  if (!tcp && iscsi_init_transport(context, ISER_TRANSPORT) != 0) {
    Drop();
    return NoRdmaError(spec_, "the library has no iSER");
  }
  if (!tcp) WatchIser(context);
  iscsi_set_session_type(context, ISCSI_SESSION_NORMAL);
  iscsi_set_targetname(context, spec_.target.c_str());
  iscsi_set_isid_random(context, IsidSeed(spec_.initiator), spec_.isid_qualifier);
  iscsi_set_header_digest(context, spec_.header_digest == IscsiHeaderDigest::kCrc32c ? ISCSI_HEADER_DIGEST_CRC32C
                                                                                     : ISCSI_HEADER_DIGEST_NONE);
  // Over iSER the target fetches all data itself (the library sends none along with a command).
  iscsi_set_immediate_data(context, tcp ? ISCSI_IMMEDIATE_DATA_YES : ISCSI_IMMEDIATE_DATA_NO);
  iscsi_set_initial_r2t(context, tcp ? ISCSI_INITIAL_R2T_NO : ISCSI_INITIAL_R2T_YES);
  if (!spec_.user.empty()) iscsi_set_initiator_username_pwd(context, spec_.user.c_str(), spec_.secret.c_str());
  if (!spec_.mutual_user.empty()) {
    iscsi_set_target_username_pwd(context, spec_.mutual_user.c_str(), spec_.mutual_secret.c_str());
  }
  if (iscsi_connect_async(context, portal_.c_str(), Impl::OnConnect, &impl) != 0) {
    const int bind_errno = impl.tap.bind_errno;
    const std::string why = WithoutSecrets(spec_, iscsi_get_error(context));
    Drop();
    return bind_errno != 0 ? BindError(spec_, bind_errno) : ConnectError(spec_, why);
  }
  // iSER connects within the call, by a thread of the library's, and has sent the login.
  phase_ = impl.connected ? Phase::kLogin : Phase::kConnecting;
  return absl::OkStatus();
}

void IscsiSession::Fail(absl::Status why, int err) {
  phase_ = Phase::kLost;
  failure_ = std::move(why);
  lost_errno_ = err;
}

void IscsiSession::Service(int events) {
  Impl& impl = *impl_;
  if (__builtin_expect(spec_.transport == IscsiTransport::kIser, 0)) {
    // Over iSER the library sends at once, takes nothing but POLLIN for well, and blocks when nothing is there.
    pollfd p{.fd = fd(), .events = POLLIN, .revents = 0};
    if (poll(&p, 1, 0) <= 0) {
      if (IserGone(impl.context)) Fail(ConnectError(spec_, "the target ended the connection"), ECONNRESET);
      return;
    }
    events = POLLIN;
  }
  const TapScope scope(&impl.tap);
  errno = 0;
  const int result = iscsi_service(impl.context, events);
  if (__builtin_expect(result == 0 && !impl.tap.lost, 1)) return;
  const int err = errno;
  const std::string text = WithoutSecrets(spec_, iscsi_get_error(impl.context));
  lost_by_digest_ = text.find("header checksum") != std::string::npos;
  if (lost_by_digest_) {
    Fail(DigestError(spec_, "a header from the target does not match its CRC32C"), EBADMSG);
  } else if (phase_ == Phase::kUp) {
    const bool known = err == ECONNRESET || err == EPIPE || err == ETIMEDOUT || err == EHOSTUNREACH ||
                       err == ENETUNREACH || err == ECONNABORTED;
    Fail(ConnectError(spec_, "the connection was lost"), known ? err : ECONNRESET);
  } else if (!impl.ended) {
    Fail(ConnectError(spec_, fmt::format("the connection ended during the login: {}", text)), ECONNRESET);
  }
}

void IscsiSession::StepConnecting() {
  pollfd p{.fd = fd(), .events = POLLOUT, .revents = 0};
  if (poll(&p, 1, 0) <= 0) return;
  int err = 0;
  socklen_t bytes = sizeof err;
  if (spec_.transport == IscsiTransport::kTcp && getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &err, &bytes) == 0 &&
      err != 0) {
    if (spec_.source_port != 0 && (err == EADDRNOTAVAIL || err == EADDRINUSE)) {
      Fail(BindError(spec_, err), err);
    } else {
      Fail(ConnectError(spec_, strerrordesc_np(err)), err);
    }
    return;
  }
  Service(p.revents);
  if (phase_ == Phase::kConnecting && impl_->connected) {
    phase_ = Phase::kLogin;
    Service(POLLOUT);
  }
}

void IscsiSession::StepLogin() {
  pollfd p{.fd = fd(), .events = static_cast<short>(iscsi_which_events(impl_->context)), .revents = 0};
  if (poll(&p, 1, 0) <= 0) return;
  // With data and end of the connection together, the data comes first: a refusal is followed by a close.
  Service((p.revents & POLLIN) != 0 ? p.revents & (POLLIN | POLLOUT) : p.revents);
  if (phase_ == Phase::kLogin && !impl_->ended && (events() & POLLOUT) != 0) Service(POLLOUT);
  if (impl_->ended && phase_ != Phase::kIdle) AfterLogin();
}

void IscsiSession::AfterLogin() {
  Impl& impl = *impl_;
  if (impl.end_status == SCSI_STATUS_GOOD && phase_ == Phase::kLogin) {
    if (spec_.header_digest == IscsiHeaderDigest::kCrc32c && spec_.transport == IscsiTransport::kTcp &&
        Negotiated("HeaderDigest") != "CRC32C") {
      Fail(DigestError(spec_, fmt::format("asked was CRC32C, the target answered {}",
                                          Negotiated("HeaderDigest").empty() ? "nothing" : Negotiated("HeaderDigest"))),
           EPROTO);
      return;
    }
    phase_ = Phase::kUp;
    impl.ended = false;
    impl.tap.measure_window = true;
    return;
  }
  if (impl.end_status == SCSI_STATUS_REDIRECT) return FollowRedirect();
  const uint16_t status = impl.tap.login_status;
  const std::string text = WithoutSecrets(spec_, iscsi_get_error(impl.context));
  if ((status >> 8) >= 2) {
    Fail(LoginStatusError(spec_, status), EACCES);
  } else if (!spec_.mutual_user.empty() && text.find("CHAP") != std::string::npos) {
    Fail(MutualChapError(spec_), EACCES);
  } else if (text.find("Digest") != std::string::npos) {
    Fail(DigestError(spec_, text), EPROTO);
  } else {
    Fail(ProtocolError(spec_, fmt::format("the login failed: {}", text)), EPROTO);
  }
}

void IscsiSession::FollowRedirect() {
  ++redirects_;
  if (++hops_ > kMaxRedirects) {
    return Fail(ProtocolError(spec_, fmt::format("more than {} redirects in one login", kMaxRedirects)), ELOOP);
  }
  // "address[:port][,portal group tag]", the address in brackets if it is IPv6 (RFC 7143 13.8).
  std::string address = iscsi_get_target_address(impl_->context);
  address = address.substr(0, address.find(','));
  int port = 3260;
  const size_t colon = address.rfind(':');
  if (colon != std::string::npos && address.find(']', colon) == std::string::npos) {
    port = std::atoi(address.c_str() + colon + 1);
    address.resize(colon);
  }
  if (address.size() > 2 && address.front() == '[') address = address.substr(1, address.size() - 2);
  if (address.empty() || port <= 0 || port > 65535) {
    return Fail(ProtocolError(spec_, "the target redirects to something that is no address"), EPROTO);
  }
  Drop();  // the target is done with this connection
  redirect_host_ = std::move(address);
  redirect_port_ = port;
  lookup_ = BeginLookup(spec_, redirect_host_);
  phase_ = Phase::kResolving;
  ++generation_;
  StepResolving();  // an address is there at once
}

void IscsiSession::StepResolving() {
  if (!lookup_->done()) return;
  const auto lookup = std::exchange(lookup_, nullptr);
  if (lookup->address().empty()) return Fail(ResolveError(spec_, redirect_host_, lookup->why()), EHOSTUNREACH);
  if (const absl::Status started = Begin(PortalText(lookup->address(), redirect_port_)); !started.ok()) {
    Fail(started, ECONNREFUSED);
  }
}

absl::Status IscsiSession::Overdue(Nanos patience) const {
  switch (phase_) {
    case Phase::kResolving:
      return ResolveTimeout(spec_, redirect_host_, patience);
    case Phase::kConnecting:
      return ConnectError(spec_, "no answer to the connect in time");
    default:
      return ConnectError(spec_, "connected, but the login was not answered in time");
  }
}

void IscsiSession::Step() {
  switch (phase_) {
    case Phase::kUp:
      Service(sending() ? POLLIN | POLLOUT : POLLIN);
      break;
    case Phase::kResolving:
      StepResolving();
      break;
    case Phase::kConnecting:
      StepConnecting();
      if (phase_ == Phase::kLogin) StepLogin();
      break;
    case Phase::kLogin:
      StepLogin();
      break;
    case Phase::kIdle:
    case Phase::kLost:
      break;
  }
  // A follow-up of the library, such as a logout the target asked for, ends in kLost by itself.
}

bool IscsiSession::Send(uint32_t id, const Cdb& cdb, uint16_t lun, uint8_t* data, uint32_t bytes) {
  if (phase_ != Phase::kUp) return false;
  Impl& impl = *impl_;
  Impl::Slot& slot = impl.slots[id];
  scsi_task& task = slot.task;
  task = {};
  std::copy_n(cdb.bytes.begin(), cdb.size, task.cdb);
  task.cdb_size = cdb.size;
  task.expxferlen = static_cast<int>(bytes);
  slot.iov = {data, bytes};
  switch (cdb.direction) {
    case ScsiDirection::kNone:
      task.xfer_dir = SCSI_XFER_NONE;
      break;
    case ScsiDirection::kRead:
      task.xfer_dir = SCSI_XFER_READ;
      scsi_task_set_iov_in(&task, &slot.iov, 1);
      break;
    case ScsiDirection::kWrite:
      task.xfer_dir = SCSI_XFER_WRITE;
      scsi_task_set_iov_out(&task, &slot.iov, 1);
      break;
  }
  // SAM-5 4.7: up to 255 the peripheral form with bus 0, above the flat one.
  const int address = lun < 256 ? lun : 0x4000 | lun;
  slot.busy = true;
  const TapScope scope(&impl.tap);
  if (iscsi_scsi_command_async(impl.context, address, &task, Impl::OnAnswer, nullptr, &slot) != 0) {
    slot.busy = false;
    return false;
  }
  impl.next_cmd_sn = task.cmdsn + 1;
  impl.numbered = true;
  Flush();
  return true;
}

void IscsiSession::ExpectMore(bool more) {
  impl_->tap.more = more;
}

void IscsiSession::Push() {
  LibiscsiTap& tap = impl_->tap;
  tap.more = false;
  if (__builtin_expect(!tap.unpushed, 1)) return;
  if (phase_ != Phase::kUp || spec_.transport != IscsiTransport::kTcp) return;
  const int on = 1;
  setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // sends what waits, even where it is on already
  tap.unpushed = false;
}

void IscsiSession::Flush() {
  if (phase_ == Phase::kUp) Service(POLLOUT);
}

bool IscsiSession::sending() const {
  return phase_ == Phase::kUp && (iscsi_which_events(impl_->context) & POLLOUT) != 0;
}

uint32_t IscsiSession::room() const {
  if (phase_ != Phase::kUp) return 0;
  if (!impl_->numbered) return 1;  // the first command tells its number
  const auto left = static_cast<int32_t>(impl_->tap.max_cmd_sn - impl_->next_cmd_sn) + 1;
  return left > 0 ? static_cast<uint32_t>(left) : 0;
}

int IscsiSession::fd() const {
  if (lookup_ != nullptr) return lookup_->fd();
  if (impl_->context == nullptr) return -1;
  // Over iSER it is that of something made by the connect, and asking for it before is a crash.
  return spec_.transport == IscsiTransport::kTcp || impl_->connected ? iscsi_get_fd(impl_->context) : -1;
}

uint32_t IscsiSession::events() const {
  if (phase_ == Phase::kResolving) return POLLIN;
  if (impl_->context == nullptr || phase_ == Phase::kLost) return 0;
  return static_cast<uint32_t>(iscsi_which_events(impl_->context));
}

void IscsiSession::Drop() {
  Impl& impl = *impl_;
  phase_ = phase_ == Phase::kLost ? Phase::kLost : Phase::kIdle;
  lookup_.reset();
  if (impl.context == nullptr) return;
  const TapScope scope(&impl.tap);
  impl.dropping = true;
  if (const int fd = this->fd(); fd >= 0 && spec_.transport == IscsiTransport::kTcp) {
    // A reset: the target learns at once that nobody waits for its answers, and a given source port is free again.
    const linger abort{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  }
  if (impl.tap.iser.helper == IserTap::Helper::kRunning) {
    EndIserHelper(impl.tap.iser);
    iscsi_scsi_cancel_all_tasks(impl.context);  // their descriptors go back to those that are freed now
    iscsi_disconnect(impl.context);             // destroying does it for a TCP socket only
  }
  ForgetIser(impl.context);
  iscsi_destroy_context(impl.context);
  DestroyIserChannel(impl.tap.iser);
  impl.context = nullptr;
  impl.dropping = false;
  for (Impl::Slot& slot : impl.slots) slot.busy = false;
}

void IscsiSession::Logout(Nanos deadline) {
  Impl& impl = *impl_;
  if (phase_ == Phase::kUp) {
    impl.ended = false;
    if (iscsi_logout_async(impl.context, Impl::OnEnd, &impl) == 0) {
      Service(POLLOUT);
      while (!impl.ended && phase_ == Phase::kUp) {
        const Nanos wait = deadline - SteadyClock::Get().Now();
        if (wait <= 0) break;
        pollfd p{.fd = fd(), .events = static_cast<short>(events() | POLLIN), .revents = 0};
        const timespec ts{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
        ppoll(&p, 1, &ts, nullptr);
        Service(POLLIN | POLLOUT);
      }
    }
  }
  Drop();
  phase_ = Phase::kIdle;
}

std::string IscsiSession::isid() const {
  return fmt::format("80{:06x}{:04x}", IsidSeed(spec_.initiator), spec_.isid_qualifier);
}

std::string IscsiSession::source() const {
  sockaddr_storage local{};
  socklen_t bytes = sizeof local;
  char host[NI_MAXHOST] = "";
  char service[NI_MAXSERV] = "";
  if (fd() < 0 || getsockname(fd(), reinterpret_cast<sockaddr*>(&local), &bytes) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&local), bytes, host, sizeof host, service, sizeof service,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  return PortalText(host, std::atoi(service));
}

std::string IscsiSession::Negotiated(std::string_view key) const {
  std::string_view keys = impl_->tap.login_keys;
  std::string value;
  while (!keys.empty()) {
    const std::string_view entry = keys.substr(0, keys.find('\0'));
    keys.remove_prefix(std::min(keys.size(), entry.size() + 1));
    if (entry.size() > key.size() && entry.substr(0, key.size()) == key && entry[key.size()] == '=') {
      value = entry.substr(key.size() + 1);  // the last answer counts
    }
  }
  return value;
}

IscsiSession::Windows IscsiSession::windows() const {
  const LibiscsiTap& tap = impl_->tap;
  if (tap.largest_window == 0 && tap.smallest_window == UINT32_MAX) return {};
  const auto last = static_cast<int32_t>(tap.max_cmd_sn - tap.exp_cmd_sn + 1);
  return {tap.smallest_window, tap.largest_window, last > 0 ? static_cast<uint32_t>(last) : 0};
}

}  // namespace muster
