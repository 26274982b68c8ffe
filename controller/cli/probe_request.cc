#include "controller/cli/probe_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "common/base/status.h"
#include "common/plan/portal.h"
#include "common/wire/codec.h"
#include "common/wire/rules.h"
#include "controller/campaign/campaign.h"
#include "controller/run/target_needs.h"

namespace muster {
namespace {

constexpr std::string_view kScheme = "iscsi://";
constexpr size_t kLongestName = 223;                                      // of an iSCSI name, RFC 7143 4.2.7.1
constexpr uint32_t kLargestLun = 16'383;                                  // flat addressing, SAM-5 4.7.7.3
constexpr const char* kInitiator = "iqn.2026-11.net.muster:initiator-0";  // the first one of a campaign

absl::Status Usage(const char* code, std::string place, std::string message, std::string next) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = code, .place = std::move(place), .message = std::move(message), .next = std::move(next)});
}

absl::Status UrlError(std::string message) {
  return Usage("PROBE_SYNTAX", "iscsi URL", std::move(message),
               "Write iscsi://HOST[:PORT]/IQN or iscsi://HOST[:PORT]/IQN/LUN, e.g. "
               "iscsi://192.0.2.10/iqn.2026-11.example:disks/1.");
}

bool Number(std::string_view text, uint32_t least, uint32_t most, uint32_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= least && out <= most;
}

absl::Status TakeSecret(const std::string& option, const std::string& reference, Secret& out) {
  if (reference.empty()) return absl::OkStatus();
  const bool known = reference.starts_with("env:") || reference.starts_with("file:");
  if (!known || reference.back() == ':') {
    // What stands there may be the secret itself: it is not repeated.
    return Usage("SECRET_ON_COMMAND_LINE", option, "takes env:NAME or file:PATH, never the secret itself",
                 "Every user of this host can read a command line, and shells keep it: put the secret into an "
                 "environment variable or a file that you alone can read.");
  }
  out.reference = reference;
  return ResolveSecret(out, option);
}

absl::Status TakeChap(const ProbeVerbOptions& options, IscsiTarget& out) {
  MUSTER_RETURN_IF_ERROR(TakeSecret("--secret", options.secret, out.secret));
  MUSTER_RETURN_IF_ERROR(TakeSecret("--mutual-secret", options.mutual_secret, out.mutual_secret));
  if (options.user.empty() != options.secret.empty()) {
    return Usage("CONTRADICTION", options.user.empty() ? "--secret" : "--user", "CHAP needs both --user and --secret",
                 "Give both, or neither.");
  }
  if (options.mutual_user.empty() != options.mutual_secret.empty()) {
    return Usage("CONTRADICTION", options.mutual_user.empty() ? "--mutual-secret" : "--mutual-user",
                 "mutual CHAP needs both --mutual-user and --mutual-secret", "Give both, or neither.");
  }
  if (!options.mutual_user.empty() && options.user.empty()) {
    return Usage("CONTRADICTION", "--mutual-user", "mutual CHAP needs --user and --secret too", "Give all four.");
  }
  if (options.user.size() > kLongestName || options.mutual_user.size() > kLongestName) {
    return Usage("PROBE_SYNTAX", "--user", fmt::format("a name has at most {} characters", kLongestName),
                 "Shorten it.");
  }
  out.user = options.user;
  out.mutual_user = options.mutual_user;
  return absl::OkStatus();
}

absl::StatusOr<ProbeRequest> OfUrl(const ProbeVerbOptions& options) {
  const std::string_view rest = std::string_view(options.what).substr(kScheme.size());
  const size_t slash = rest.find('/');
  const std::string_view portal = rest.substr(0, slash);
  // libiscsi's tools take user%secret@host: said apart, and without repeating it.
  if (rest.find('@') != std::string_view::npos) {
    return Usage("SECRET_ON_COMMAND_LINE", "iscsi URL", "it takes no user and no secret",
                 "Give --user and --secret env:NAME or file:PATH.");
  }
  if (slash == std::string_view::npos) return UrlError("names no target");
  // In a URL an IPv6 address stands in brackets (RFC 3986 3.2.2).
  const bool bare = !portal.starts_with("[") && portal.find(':') != portal.rfind(':');
  if (bare || portal.size() > 256 || !ParsePortal(portal)) {
    return UrlError(fmt::format("{} is no HOST[:PORT]", QuoteText(portal)));
  }
  std::string_view iqn = rest.substr(slash + 1);
  std::string_view lun;
  const size_t second = iqn.find('/');
  if (second != std::string_view::npos) {
    lun = iqn.substr(second + 1);
    iqn = iqn.substr(0, second);
  }
  if (iqn.empty()) return UrlError("names no target");
  if (iqn.size() > kLongestName || iqn.find_first_of(" {}\t") != std::string_view::npos) {
    return UrlError(fmt::format("{} is no name of a target", QuoteText(iqn)));
  }
  uint32_t number = 0;
  if (second != std::string_view::npos && !Number(lun, 0, kLargestLun, number)) {
    return UrlError(fmt::format("{} is no LUN (a number up to {})", QuoteText(lun), kLargestLun));
  }
  IscsiTarget target;
  target.portals = {std::string(portal)};
  target.iqn = std::string(iqn);
  target.luns = {number};
  target.initiator = options.initiator.empty() ? kInitiator : options.initiator;
  if (target.initiator.size() > kLongestName) {
    return Usage("PROBE_SYNTAX", "--initiator", fmt::format("a name has at most {} characters", kLongestName),
                 "Shorten it.");
  }
  if (!options.source.empty()) target.sources = {options.source};
  target.header_digest = options.header_digest;
  MUSTER_RETURN_IF_ERROR(TakeChap(options, target));
  ProbeRequest request{.target = {.name = "probe", .kind = std::move(target)}, .objects = {}};
  if (second != std::string_view::npos) request.objects.push_back({.slot = 0, .name = "", .size = 0});
  return request;
}

absl::StatusOr<Target> FindTarget(const LoadedCampaign& campaign, const std::string& name) {
  const auto& targets = campaign.message.targets();
  const auto found = targets.find(name);
  if (found != targets.end()) return FromProto(name, found->second);
  std::vector<std::string> choices;
  for (const auto& [known, target] : targets) choices.push_back(known);
  std::sort(choices.begin(), choices.end());
  const std::string near = DidYouMean(name, choices);
  return Usage("UNKNOWN_TARGET", campaign.file, fmt::format("there is no target {}", QuoteText(name)),
               near.empty() ? fmt::format("The targets are: {}.", fmt::join(choices, ", "))
                            : fmt::format("Did you mean {}?", QuoteText(near)));
}

absl::StatusOr<ProbeRequest> OfCampaign(const ProbeVerbOptions& options) {
  const std::vector<std::pair<const char*, bool>> given = {{"--user", !options.user.empty()},
                                                           {"--secret", !options.secret.empty()},
                                                           {"--mutual-user", !options.mutual_user.empty()},
                                                           {"--mutual-secret", !options.mutual_secret.empty()},
                                                           {"--initiator", !options.initiator.empty()},
                                                           {"--source", !options.source.empty()},
                                                           {"--header-digest", options.header_digest}};
  for (const auto& [option, is_given] : given) {
    if (is_given) {
      return Usage("CONTRADICTION", option, "is for iscsi:// only: of a target in a campaign, the campaign says it",
                   "Leave it out, or probe iscsi://PORTAL/IQN.");
    }
  }
  const size_t colon = options.what.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == options.what.size()) {
    return Usage("PROBE_SYNTAX", "muster targets probe",
                 fmt::format("{} is neither CAMPAIGN:NAME nor iscsi://PORTAL/IQN", QuoteText(options.what)),
                 "Name a campaign file and a target in it, e.g. database.yaml:luns.");
  }
  const std::string name = options.what.substr(colon + 1);
  MUSTER_ASSIGN_OR_RETURN(const LoadedCampaign campaign, LoadCampaign(options.what.substr(0, colon)));
  MUSTER_ASSIGN_OR_RETURN(Plan plan, Compile(campaign));
  MUSTER_ASSIGN_OR_RETURN(Target target, FindTarget(campaign, name));
  // Secrets of other targets are not needed, so they need not be there.
  plan.targets = {std::move(target)};
  MUSTER_RETURN_IF_ERROR(ResolveSecrets(campaign, plan));
  TargetNeeds needs = NeedsOf(plan, name);
  return ProbeRequest{
      .target = std::move(plan.targets.front()), .objects = std::move(needs.objects), .writes = needs.writes};
}

}  // namespace

absl::StatusOr<ProbeRequest> ProbeRequestOf(const ProbeVerbOptions& options) {
  return options.what.starts_with(kScheme) ? OfUrl(options) : OfCampaign(options);
}

}  // namespace muster
