#include "controller/campaign/sweep.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "common/wire/rules.h"
#include "fmt/format.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;

// One list of a sweep.
struct Axis {
  std::string name;
  SourcePosition at;
  int size = 0;
  std::vector<std::string> texts;
  std::function<void(SweepPoint&, int)> apply;
};

std::function<void(SweepPoint&, int)> ApplyOf(const v1::Sweep& sweep, int field) {
  switch (field) {
    case v1::Sweep::kInitiatorsFieldNumber:
      return [&sweep](SweepPoint& p, int i) { p.initiators = sweep.initiators(i); };
    case v1::Sweep::kLoadFieldNumber:
      // The text was checked when it was read.
      return [&sweep](SweepPoint& p, int i) { p.load = ParseLoad(sweep.load(i)).value_or(Load{}); };
    case v1::Sweep::kBlockFieldNumber:
      return [&sweep](SweepPoint& p, int i) { p.block = sweep.block(i); };
    case v1::Sweep::kReadFieldNumber:
      return [&sweep](SweepPoint& p, int i) { p.read = sweep.read(i); };
    case v1::Sweep::kRateFieldNumber:
      return [&sweep](SweepPoint& p, int i) { p.rate = sweep.rate(i); };
    default:
      return {};
  }
}

std::vector<Axis> AxesOf(const LoadedCampaign& campaign, const v1::Sweep& sweep, const std::string& path) {
  std::vector<Axis> axes;
  const auto& type = *v1::Sweep::descriptor();
  for (int f = 0; f < type.field_count(); ++f) {
    const FieldDescriptor& field = *type.field(f);
    const int size = sweep.GetReflection()->FieldSize(sweep, &field);
    if (size == 0) continue;
    Axis axis{.name = field.name(),
              .at = campaign.KeyAt(path + "." + field.name()),
              .size = size,
              .texts = {},
              .apply = ApplyOf(sweep, field.number())};
    for (int i = 0; i < size; ++i) axis.texts.push_back(FormatElement(sweep, field, i));
    axes.push_back(std::move(axis));
  }
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
  });
  return axes;
}

void CheckDuplicates(const LoadedCampaign& campaign, const Axis& axis, const std::string& path, Problems& problems) {
  std::map<std::string, int> seen;
  for (int i = 0; i < axis.size; ++i) {
    const auto [it, fresh] = seen.try_emplace(axis.texts[i], i);
    if (fresh) continue;
    const SourcePosition first = campaign.At(fmt::format("{}.{}[{}]", path, axis.name, it->second));
    problems.Add(campaign.At(fmt::format("{}.{}[{}]", path, axis.name, i)), "DUPLICATE_POINT",
                 fmt::format("{} is swept twice, first at {}:{}", axis.texts[i], first.line, first.column),
                 "Remove one of them: the points of a sweep have different names.");
  }
}

}  // namespace

std::string SweepPoint::NameOf(const std::string& step) const {
  if (labels.empty()) return step;
  std::string out = step + "[";
  for (const auto& [name, value] : labels) out += fmt::format("{}{}={}", out.back() == '[' ? "" : ",", name, value);
  return out + "]";
}

std::vector<SweepPoint> ExpandSweep(const LoadedCampaign& campaign, const v1::Sweep& sweep, const std::string& path,
                                    const SweepPoint& base, size_t most, Problems& problems) {
  const std::vector<Axis> axes = AxesOf(campaign, sweep, path);
  size_t count = 1;  // a list has at most 256 elements, so the product of five fits
  for (const Axis& axis : axes) {
    CheckDuplicates(campaign, axis, path, problems);
    count *= static_cast<size_t>(axis.size);
  }
  if (count > most) {
    problems.Add(campaign.KeyAt(path), "PLAN_TOO_LARGE",
                 fmt::format("the sweep has {} points; a plan has at most 10000 steps in all", count),
                 "Sweep fewer values.");
    return {};
  }
  std::vector<SweepPoint> points;
  points.reserve(count);
  for (size_t n = 0; n < count; ++n) {
    SweepPoint point = base;
    size_t below = count;  // points of one value of the axes seen so far
    for (const Axis& axis : axes) {
      below /= static_cast<size_t>(axis.size);
      const auto i = static_cast<int>(n / below % static_cast<size_t>(axis.size));
      axis.apply(point, i);
      point.labels.emplace_back(axis.name, axis.texts[i]);
    }
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace muster
