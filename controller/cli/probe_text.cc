#include "controller/cli/probe_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "common/base/units.h"
#include "controller/report/derived.h"
#include "controller/report/table.h"

namespace muster {
namespace {

using Align = Table::Align;
using Json = nlohmann::ordered_json;

std::string YesNo(const std::optional<bool>& value, const char* yes, const char* no) {
  return !value ? "not told" : *value ? yes : no;
}

std::string Bytes(uint64_t bytes) {
  return bytes == 0 ? "not told" : FormatSize(bytes);
}

std::string GuardText(const ProbedLun& lun) {
  if (lun.refusal.ok()) return lun.found;
  const ErrorInfo info = GetErrorInfo(lun.refusal);
  return fmt::format("REFUSED {}: {}", info.code, info.message);
}

std::string Product(const ProbedLun& lun) {
  return fmt::format("{} {} {}", lun.vendor, lun.product, lun.revision);
}

std::string LunTable(const TargetProbe& probe) {
  Table table({{"LUN"},
               {"product", Align::kLeft},
               {"size"},
               {"block"},
               {"writes", Align::kLeft},
               {"cache", Align::kLeft},
               {"FUA", Align::kLeft},
               {"unmap", Align::kLeft},
               {"max transfer"},
               {"guard", Align::kLeft}},
              "  ");
  for (const ProbedLun& lun : probe.luns) {
    const std::string number = fmt::format("{}{}", lun.used ? "*" : "", lun.lun);
    if (lun.block == 0) {
      table.Add({number, "-", "-", "-", "-", "-", "-", "-", "-", GuardText(lun)});
      continue;
    }
    table.Add({number, Product(lun), FormatSize(lun.size), std::to_string(lun.block),
               YesNo(lun.write_protected, "protected", "allowed"), YesNo(lun.write_cache, "on", "off"),
               YesNo(lun.fua, "yes", "no"), lun.unmap ? "yes" : "no", Bytes(lun.max_transfer), GuardText(lun)});
  }
  return table.Text();
}

std::string UnmapText(const ProbedLun& lun) {
  if (!lun.unmap) return "no";
  // SBC-3 6.6.4: all ones is no limit.
  const bool any = lun.max_unmap / lun.block == UINT32_MAX;
  return fmt::format("largest {}, ranges {}, granularity {}, unmapped blocks {}",
                     any ? "without limit" : Bytes(lun.max_unmap),
                     lun.max_unmap_ranges == UINT32_MAX ? "without limit"
                     : lun.max_unmap_ranges == 0        ? "not told"
                                                        : std::to_string(lun.max_unmap_ranges),
                     Bytes(lun.unmap_granularity), lun.reads_zeroes ? "read as zeroes" : "may hold anything");
}

std::string LunDetails(const ProbedLun& lun) {
  if (lun.block == 0) return "";
  std::string out = fmt::format("  LUN {}{}\n", lun.lun, lun.used ? ", used" : "");
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("    {:<17} {}\n", std::string(name) + ":", Printable(value));
  };
  line("size", fmt::format("{} B, {} blocks of {} B, physical {} B", lun.size, lun.size / lun.block, lun.block,
                           lun.physical_block));
  line("serial", lun.serial.empty() ? "not told" : lun.serial);
  for (const std::string& id : lun.wwids) line("WWID", id);
  line("transfer", fmt::format("largest {}, best {}", Bytes(lun.max_transfer), Bytes(lun.optimal_transfer)));
  line("unmap", UnmapText(lun));
  if (!lun.found.empty()) line("found", lun.found);
  line("guard", lun.refusal.ok() ? "may be written" : "REFUSED " + FormatError(lun.refusal));
  return out;
}

Json ErrorJson(const absl::Status& status) {
  if (status.ok()) return nullptr;
  const ErrorInfo info = GetErrorInfo(status);
  return {{"code", info.code}, {"place", info.place}, {"message", info.message}, {"next", info.next}};
}

Json Told(uint64_t value) {
  return value == 0 ? Json(nullptr) : Json(value);
}

Json Told(const std::optional<bool>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json LunJson(const ProbedLun& lun) {
  return {{"lun", lun.lun},
          {"used", lun.used},
          {"disk", lun.block != 0},
          {"vendor", lun.vendor},
          {"product", lun.product},
          {"revision", lun.revision},
          {"serial", lun.serial},
          {"wwids", lun.wwids},
          {"size", lun.size},
          {"block", lun.block},
          {"physical_block", lun.physical_block},
          {"write_protected", Told(lun.write_protected)},
          {"write_cache", Told(lun.write_cache)},
          {"fua", Told(lun.fua)},
          {"unmap", lun.unmap},
          {"unmapped_reads_zeroes", lun.reads_zeroes},
          {"max_unmap", Told(lun.max_unmap)},
          {"max_unmap_ranges", Told(lun.max_unmap_ranges)},
          {"unmap_granularity", Told(lun.unmap_granularity)},
          {"max_transfer", Told(lun.max_transfer)},
          {"optimal_transfer", Told(lun.optimal_transfer)},
          {"found", lun.found},
          {"writable", lun.refusal.ok()},
          {"refusal", ErrorJson(lun.refusal)}};
}

}  // namespace

std::string ProbeText(const TargetView& view) {
  std::string out =
      Printable(fmt::format("{} seen from {}; read only, nothing was written", view.place, view.host)) + "\n";
  for (const std::string& note : view.notes) out += Printable("note: " + note) + "\n";
  if (!view.probe) {
    const auto line = [&](std::string_view name, const std::string& value) {
      if (!value.empty()) out += fmt::format("  {:<9} {}\n", std::string(name) + ":", Printable(value));
    };
    line("identity", view.identity);
    if (view.size > 0) line("size", fmt::format("{} B", view.size));
    line("found", view.found);
    line("writes", view.would_write);
    line("guard", view.refusal.ok() ? view.verdict : "REFUSED " + FormatError(view.refusal));
    return out;
  }
  const TargetProbe& probe = *view.probe;
  size_t width = 0;
  for (const auto& [name, value] : probe.session) width = std::max(width, name.size());
  out += "\nsession\n";
  for (const auto& [name, value] : probe.session) {
    out += Printable(fmt::format("  {:<{}}  {}", name, width, value)) + "\n";
  }
  out +=
      fmt::format("\n{} LUNs reported{}\n", probe.luns_reported,
                  probe.luns_reported > probe.luns.size() ? fmt::format(", the first {} told", probe.luns.size()) : "");
  out += LunTable(probe);
  for (const ProbedLun& lun : probe.luns) {
    const std::string details = LunDetails(lun);
    if (!details.empty()) out += "\n" + details;
  }
  return out;
}

std::string JsonProbe(const TargetView& view) {
  Json json = {{"event", "probe"},
               {"agent", view.agent},
               {"host", view.host},
               {"target", view.target},
               {"place", view.place},
               {"identity", view.identity},
               {"size", view.size},
               {"found", view.found},
               {"writable", view.writable},
               {"verdict", view.verdict},
               {"would_write", view.would_write},
               {"refusal", ErrorJson(view.refusal)},
               {"notes", view.notes},
               {"read_only", true}};
  json["session"] = nullptr;
  json["luns_reported"] = nullptr;
  json["luns"] = nullptr;
  if (view.probe) {
    Json session = Json::object();
    for (const auto& [name, value] : view.probe->session) session[name] = value;
    json["session"] = session;
    json["luns_reported"] = view.probe->luns_reported;
    json["luns"] = Json::array();
    for (const ProbedLun& lun : view.probe->luns) json["luns"].push_back(LunJson(lun));
  }
  // What devices say of themselves need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace muster
