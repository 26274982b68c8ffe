#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "common/base/status.h"
#include "common/plan/labels.h"
#include "common/wire/codec.h"
#include "common/wire/rules.h"
#include "controller/campaign/campaign.h"
#include "controller/campaign/problems.h"
#include "controller/campaign/step_compiler.h"
#include "fmt/format.h"

namespace muster {
namespace {

bool Before(SourcePosition a, SourcePosition b) {
  return std::tie(a.line, a.column) < std::tie(b.line, b.column);
}

// "/srv/./a//b/" -> "/srv/a/b". Links are for the host to see, where the paths mean something.
std::string Normal(const std::string& path) {
  std::string out = std::filesystem::path(path).lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

class Compiler {
 public:
  explicit Compiler(const LoadedCampaign& campaign) : campaign_(campaign), problems_(campaign.file) {}

  absl::StatusOr<Plan> Compile() {
    const v1::Campaign& message = campaign_.message;
    plan_.name = message.name();
    plan_.seed = message.seed();
    plan_.interval = static_cast<Nanos>(message.interval());
    plan_.op_timeout = static_cast<Nanos>(message.op_timeout());
    plan_.continue_on_loss = message.on_agent_loss() == v1::ON_AGENT_LOSS_CONTINUE;
    CollectTargets();
    CheckChap();
    CheckOverlaps();
    CheckMatch();
    CollectBlocks();
    for (int i = 0; i < message.steps_size() && !problems_.full(); ++i) AddStep(i);
    for (const TargetState& state : targets_) {
      if (state.used) {
        plan_.targets.push_back(state.target);
      } else {
        const std::string path = "targets." + state.target.name;
        const SourcePosition at = campaign_.KeyAt(path);
        plan_.warnings.push_back(
            fmt::format("{}: target {} is used by no step", problems_.Place(at), state.target.name));
      }
    }
    if (!problems_.empty()) return problems_.ToStatus();
    return std::move(plan_);
  }

 private:
  // A value that no agent can have would wait for ever.
  void CheckMatch() {
    for (const auto& [name, value] : campaign_.message.initiators().match()) {
      if (IsLabelText(value)) continue;
      problems_.Add(campaign_.At("initiators.match." + name), "LABEL_SYNTAX",
                    fmt::format("{} is no value of a label", QuoteText(value)),
                    "A label's value has 1 to 64 characters of A-Z a-z 0-9 . _ -, letter or digit first.");
    }
  }

  void CollectTargets() {
    for (const auto& [name, target] : campaign_.message.targets()) {
      absl::StatusOr<Target> made = FromProto(name, target);
      if (made.ok()) {
        targets_.push_back({.target = *std::move(made)});
      } else {
        AddTarget(name, made.status());
      }
    }
    // In the order of the file: the message keeps them in none.
    std::sort(targets_.begin(), targets_.end(), [&](const TargetState& a, const TargetState& b) {
      return Before(campaign_.KeyAt("targets." + a.target.name), campaign_.KeyAt("targets." + b.target.name));
    });
  }

  // At the option that the error names, if it does.
  void AddTarget(const std::string& name, const absl::Status& status) {
    const ErrorInfo info = GetErrorInfo(status);
    problems_.Add(campaign_.At("targets." + name + (info.place.empty() ? "" : "." + info.place)), status);
  }

  void CollectBlocks() {
    for (const v1::Step& step : campaign_.message.steps()) {
      TargetState* state = FindTarget(step.target());
      if (state == nullptr) continue;
      const auto& swept = step.sweep().block();
      state->blocks.insert(swept.begin(), swept.end());
      if (swept.empty()) state->blocks.insert(step.workload().block());
    }
  }

  TargetState* FindTarget(const std::string& name) {
    for (TargetState& state : targets_) {
      if (state.target.name == name) return &state;
    }
    return nullptr;
  }

  // Two targets over the same bytes would overwrite each other's working sets behind the write guard's back.
  void CheckOverlaps() {
    std::map<std::string, std::string> seen;  // normal path -> field path of the first that names it
    for (const TargetState& state : targets_) {
      const std::string prefix = "targets." + state.target.name;
      if (const auto* file = std::get_if<FileTarget>(&state.target.kind)) {
        CheckOverlap(seen, Normal(file->dir), prefix + ".file.dir", "directory");
      } else if (const auto* block = std::get_if<BlockTarget>(&state.target.kind)) {
        CheckOverlap(seen, Normal(block->device), prefix + ".block.device", "device");
      } else if (const auto* iscsi = std::get_if<IscsiTarget>(&state.target.kind)) {
        CheckIscsi(*iscsi, prefix);
        for (const uint32_t lun : iscsi->luns) {
          CheckOverlap(seen, fmt::format("{} LUN {}", iscsi->iqn, lun), prefix + ".iscsi.iqn", "LUN");
        }
      }
    }
  }

  void CheckChap() {
    for (const TargetState& state : targets_) {
      const std::string chap = "targets." + state.target.name + ".chap";
      if (!campaign_.IsGiven(chap) || std::holds_alternative<IscsiTarget>(state.target.kind)) continue;
      problems_.Add(campaign_.KeyAt(chap), "CONTRADICTION", "chap is for iscsi targets", "Remove it.");
    }
  }

  void CheckIscsi(const IscsiTarget& iscsi, const std::string& prefix) {
    const std::string here = prefix + ".iscsi";
    // Two sessions of one name to one target portal group would end each other (RFC 7143 6.3.5).
    if (iscsi.initiator.find("{initiator}") == std::string::npos) {
      problems_.Add(campaign_.At(here + ".initiator"), "CONTRADICTION",
                    fmt::format("the name {} is the same for every initiator", QuoteText(iscsi.initiator)),
                    "Put {initiator} into it.");
    }
    if (iscsi.overwrite && iscsi.luns.size() + (iscsi.target_each() ? 1 : 0) > 1) {
      problems_.Add(campaign_.KeyAt(here + ".overwrite"), "CONTRADICTION",
                    "overwrite names one LUN by identity and size, but the target has several",
                    "Clear the LUNs first, or make a target for each.");
    }
    const std::string chap = prefix + ".chap";
    if (iscsi.mutual_user.empty() != iscsi.mutual_secret.reference.empty()) {
      problems_.Add(campaign_.KeyAt(chap), "CONTRADICTION", "mutual CHAP needs both mutual_user and mutual_secret",
                    "Give both, or neither.");
    }
  }

  void CheckOverlap(std::map<std::string, std::string>& seen, const std::string& path, const std::string& field,
                    const std::string& noun) {
    std::string owner;
    for (const auto& [other, other_field] : seen) {
      // The data of a file target lies in DIR/muster-data.
      const std::string data = "/muster-data";
      const bool inside = (path + "/").starts_with(other + data + "/") || (other + "/").starts_with(path + data + "/");
      if (path == other || inside) owner = other_field;
    }
    if (!owner.empty()) {
      const SourcePosition first = campaign_.At(owner);
      problems_.Add(
          campaign_.At(field), "CONTRADICTION",
          fmt::format("the {} {} is already that of the target at {}:{}", noun, path, first.line, first.column),
          "Let both steps name one target, or give each a place of its own.");
      return;
    }
    seen.emplace(path, field);
  }

  void AddStep(int index) {
    const v1::Step& step = campaign_.message.steps(index);
    const std::string path = fmt::format("steps[{}]", index);
    const auto [it, fresh] = names_.try_emplace(step.name(), index);
    if (!fresh) {
      const SourcePosition first = campaign_.At(fmt::format("steps[{}].name", it->second));
      problems_.Add(campaign_.At(path + ".name"), "DUPLICATE_STEP",
                    fmt::format("the step name {} is given twice, first at {}:{}", QuoteText(step.name()), first.line,
                                first.column),
                    "Give each step a name of its own.");
      return;
    }
    TargetState* state = FindTarget(step.target());
    if (state == nullptr) {
      // One that is there but wrong has been told.
      if (!campaign_.message.targets().contains(step.target())) AddUnknownTarget(step.target(), path);
      return;
    }
    state->used = true;
    CompileStep(campaign_, index, *state, plan_, problems_);
  }

  void AddUnknownTarget(const std::string& name, const std::string& path) {
    std::vector<std::string> choices;
    for (const TargetState& state : targets_) choices.push_back(state.target.name);
    const std::string near = DidYouMean(name, choices);
    problems_.Add(campaign_.At(path + ".target"), "UNKNOWN_TARGET",
                  fmt::format("there is no target {}", QuoteText(name)),
                  near.empty() ? fmt::format("The targets are: {}.", fmt::join(choices, ", "))
                               : fmt::format("Did you mean {}?", QuoteText(near)));
  }

  const LoadedCampaign& campaign_;
  Problems problems_;
  Plan plan_;
  std::vector<TargetState> targets_;
  std::map<std::string, int> names_;
};

}  // namespace

absl::StatusOr<Plan> Compile(const LoadedCampaign& campaign) {
  return Compiler(campaign).Compile();
}

}  // namespace muster
