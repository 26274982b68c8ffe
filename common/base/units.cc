#include "common/base/units.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

using Wide = unsigned __int128;

constexpr size_t kMaxShown = 40;           // characters of the user's text repeated in an error
constexpr size_t kMaxFractionDigits = 18;  // 10^18 * the largest unit stays far below 2^128
constexpr uint32_t kMaxLoadPart = 65'535;  // so that streams x depth fits 32 bits
constexpr double kMaxRate = 1e9;           // one operation a nanosecond, the resolution of the clock

// What a parser takes, for its error texts.
struct Kind {
  std::string_view noun;
  std::string_view examples;
};
constexpr Kind kSize{"a size", "4096, 4KiB, 4K (= 4KiB), 1.5MiB, 140GB or 1TiB"};
constexpr Kind kDuration{"a duration", "100ns, 250us, 1.5ms, 30s, 2m or 2h30m"};
constexpr Kind kRate{"a rate", "10000/s, 10k/s, 1.5M/s or 600/min"};
constexpr Kind kPercent{"a percentage", "70% or 0.5%"};
constexpr Kind kPasses{"a number of passes", "1x or 2x"};
constexpr Kind kLoad{"a load", "16T16Q (16 streams x 16 outstanding) or 1T128Q"};

// The user's text made safe for one line of output.
std::string Shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out.push_back(c);
    }
  }
  if (text.size() > kMaxShown) out += "...";
  return out;
}

absl::Status SyntaxError(const Kind& kind, std::string_view text, std::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = "UNIT_SYNTAX",
                    .message = fmt::format("\"{}\" is not {}: {}; write for example {}", Shown(text), kind.noun, why,
                                           kind.examples)});
}

absl::Status RangeError(const Kind& kind, std::string_view text, std::string_view allowed) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = "UNIT_RANGE",
                    .message = fmt::format("\"{}\" is out of range for {}: {}", Shown(text), kind.noun, allowed)});
}

// A decimal number kept exact: whole + fraction / 10^digits, trailing zeros of the fraction dropped.
struct Decimal {
  uint64_t whole = 0;
  uint64_t fraction = 0;
  int digits = 0;
  bool huge = false;  // the whole part does not fit 64 bits
};

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

Wide PowerOfTen(int exponent) {
  Wide value = 1;
  for (int i = 0; i < exponent; ++i) value *= 10;
  return value;
}

// Takes "12", "0", "1.5" off the front of `rest`. On failure returns the reason and leaves `number` unspecified.
std::optional<std::string_view> TakeDecimal(std::string_view& rest, Decimal& number) {
  number = Decimal{};
  if (rest.empty()) return "it is empty";
  if (rest.front() == ' ' || rest.front() == '\t') return "it begins with a blank";
  if (rest.front() == '-' || rest.front() == '+') return "signs are not allowed";
  if (!IsDigit(rest.front())) return "it does not begin with a digit";
  if (rest.size() > 1 && rest[0] == '0' && IsDigit(rest[1])) return "leading zeros are not allowed";
  size_t i = 0;
  for (; i < rest.size() && IsDigit(rest[i]); ++i) {
    const auto digit = static_cast<uint64_t>(rest[i] - '0');
    if (number.whole > (UINT64_MAX - digit) / 10) number.huge = true;
    number.whole = number.whole * 10 + digit;
  }
  if (i < rest.size() && rest[i] == '.') {
    const size_t first = ++i;
    while (i < rest.size() && IsDigit(rest[i])) ++i;
    if (i == first) return "no digit follows the point";
    std::string_view fraction = rest.substr(first, i - first);
    while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
    if (fraction.size() > kMaxFractionDigits) return "it has more than 18 digits after the point";
    for (const char c : fraction) number.fraction = number.fraction * 10 + static_cast<uint64_t>(c - '0');
    number.digits = static_cast<int>(fraction.size());
  }
  rest.remove_prefix(i);
  return std::nullopt;
}

// numerator / denominator, rounded once when both fit a double, as for everything people write.
double Divide(Wide numerator, Wide denominator) {
  constexpr Wide kExact = Wide{1} << 53;
  if (numerator <= kExact && denominator <= kExact) {
    return static_cast<double>(numerator) / static_cast<double>(denominator);
  }
  return static_cast<double>(static_cast<long double>(numerator) / static_cast<long double>(denominator));
}

// number * scale when that is a whole number. Cannot overflow 128 bits for scale < 2^63.
std::optional<Wide> ScaleExactly(const Decimal& number, uint64_t scale) {
  const Wide part = static_cast<Wide>(number.fraction) * scale;
  const Wide divisor = PowerOfTen(number.digits);
  if (part % divisor != 0) return std::nullopt;
  return static_cast<Wide>(number.whole) * scale + part / divisor;
}

struct Unit {
  std::string_view name;
  uint64_t scale;
};

template <size_t N>
const Unit* FindUnit(const std::array<Unit, N>& units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if ((a[i] | 0x20) != (b[i] | 0x20)) return false;
  }
  return true;
}

// Why `name` is no unit of the table; names the one it probably meant.
template <size_t N>
std::string UnitReason(const std::array<Unit, N>& units, std::string_view name) {
  if (name.empty()) return "it does not say its unit";
  if (name.front() == ' ' || name.front() == '\t') return "a blank stands between number and unit or at the end";
  if (name.back() == ' ' || name.back() == '\t' || name.back() == '\n') return "it ends with a blank";
  for (const Unit& unit : units) {
    if (EqualIgnoringCase(unit.name, name)) return fmt::format("the unit is spelled \"{}\"", unit.name);
  }
  return fmt::format("\"{}\" is not a unit", Shown(name));
}

constexpr std::array<Unit, 14> kSizeUnits{{{"", 1},
                                           {"B", 1},
                                           {"KiB", uint64_t{1} << 10},
                                           {"MiB", uint64_t{1} << 20},
                                           {"GiB", uint64_t{1} << 30},
                                           {"TiB", uint64_t{1} << 40},
                                           {"K", uint64_t{1} << 10},
                                           {"M", uint64_t{1} << 20},
                                           {"G", uint64_t{1} << 30},
                                           {"T", uint64_t{1} << 40},
                                           {"KB", 1'000},
                                           {"MB", 1'000'000},
                                           {"GB", 1'000'000'000},
                                           {"TB", 1'000'000'000'000}}};

// Descending: parts of a compound duration must follow in this order.
constexpr std::array<Unit, 6> kDurationUnits{{{"h", static_cast<uint64_t>(kHour)},
                                              {"m", static_cast<uint64_t>(kMinute)},
                                              {"s", static_cast<uint64_t>(kSecond)},
                                              {"ms", static_cast<uint64_t>(kMillisecond)},
                                              {"us", static_cast<uint64_t>(kMicrosecond)},
                                              {"ns", 1}}};

constexpr std::array<Unit, 4> kRateScales{{{"", 1}, {"k", 1'000}, {"M", 1'000'000}, {"G", 1'000'000'000}}};

std::string_view TakeWord(std::string_view& rest) {
  size_t i = 0;
  while (i < rest.size() && !IsDigit(rest[i])) ++i;
  const std::string_view word = rest.substr(0, i);
  rest.remove_prefix(i);
  return word;
}

// A whole number up to `limit`, for counts of things.
absl::StatusOr<uint32_t> TakeCount(const Kind& kind, std::string_view text, std::string_view& rest, uint32_t limit,
                                   std::string_view what) {
  Decimal number;
  if (auto why = TakeDecimal(rest, number)) return SyntaxError(kind, text, *why);
  if (number.digits > 0) return SyntaxError(kind, text, fmt::format("{} must be a whole number", what));
  if (number.huge || number.whole < 1 || number.whole > limit) {
    return RangeError(kind, text, fmt::format("{} must be from 1 to {}", what, limit));
  }
  return static_cast<uint32_t>(number.whole);
}

// Three significant digits; rounding up to the next power of ten keeps three ("9.999" is "10.0").
std::string ThreeDigits(double value) {
  int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
  if (decimals == 2 && value >= 9.995) decimals = 1;
  if (decimals == 1 && value >= 99.95) decimals = 0;
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  std::string_view rest = text;
  Decimal number;
  if (auto why = TakeDecimal(rest, number)) return SyntaxError(kSize, text, *why);
  const Unit* unit = FindUnit(kSizeUnits, rest);
  if (unit == nullptr) return SyntaxError(kSize, text, UnitReason(kSizeUnits, rest));
  constexpr std::string_view kAllowed = "it must be at most 18446744073709551615 bytes (just below 16777216TiB)";
  if (number.huge) return RangeError(kSize, text, kAllowed);
  const auto bytes = ScaleExactly(number, unit->scale);
  if (!bytes.has_value()) return SyntaxError(kSize, text, "it is not a whole number of bytes");
  if (*bytes > UINT64_MAX) return RangeError(kSize, text, kAllowed);
  return static_cast<uint64_t>(*bytes);
}

absl::StatusOr<Nanos> ParseDuration(std::string_view text) {
  const std::string allowed = fmt::format("it must be at most {}h", kNever / kHour);
  std::string_view rest = text;
  Wide total = 0;
  size_t next_unit = 0;  // parts descend, each unit at most once; this bounds the loop
  bool fraction = false;
  do {
    if (fraction) return SyntaxError(kDuration, text, "only the last part may have a fraction");
    Decimal number;
    if (auto why = TakeDecimal(rest, number)) return SyntaxError(kDuration, text, *why);
    const std::string_view word = TakeWord(rest);
    const Unit* unit = FindUnit(kDurationUnits, word);
    if (unit == nullptr) {
      if (word == "min") return SyntaxError(kDuration, text, "minutes are spelled \"m\"");
      if (word == "\u00b5s" || word == "\u03bcs")
        return SyntaxError(kDuration, text, "microseconds are spelled \"us\"");
      return SyntaxError(kDuration, text, UnitReason(kDurationUnits, word));
    }
    const auto position = static_cast<size_t>(unit - kDurationUnits.data());
    if (position < next_unit) {
      return SyntaxError(kDuration, text, "its parts must go from the larger unit to the smaller, each once");
    }
    next_unit = position + 1;
    fraction = number.digits > 0;
    if (number.huge) return RangeError(kDuration, text, allowed);
    const auto part = ScaleExactly(number, unit->scale);
    if (!part.has_value()) return SyntaxError(kDuration, text, "it is not a whole number of nanoseconds");
    total += *part;
  } while (!rest.empty());
  if (total > static_cast<Wide>(kNever)) return RangeError(kDuration, text, allowed);
  return static_cast<Nanos>(total);
}

absl::StatusOr<double> ParseRate(std::string_view text) {
  std::string_view rest = text;
  Decimal number;
  if (auto why = TakeDecimal(rest, number)) return SyntaxError(kRate, text, *why);
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return SyntaxError(kRate, text, "it does not say \"/s\" or \"/min\"");
  const std::string_view scale_name = rest.substr(0, slash);
  const std::string_view per = rest.substr(slash + 1);
  const Unit* scale = FindUnit(kRateScales, scale_name);
  if (scale == nullptr) return SyntaxError(kRate, text, UnitReason(kRateScales, scale_name));
  if (per != "s" && per != "min") {
    return SyntaxError(kRate, text, fmt::format("\"/{}\" is not \"/s\" or \"/min\"", Shown(per)));
  }
  constexpr std::string_view kAllowed = "it must be above 0 and at most 1G/s";
  // Bounded before anything is multiplied: then the product below is exact in 128 bits.
  if (number.huge || number.whole > static_cast<uint64_t>(60 * kMaxRate)) return RangeError(kRate, text, kAllowed);
  const Wide divisor = PowerOfTen(number.digits) * (per == "min" ? 60 : 1);
  const Wide numerator = (static_cast<Wide>(number.whole) * PowerOfTen(number.digits) + number.fraction) * scale->scale;
  const double rate = Divide(numerator, divisor);
  if (!(rate > 0) || rate > kMaxRate) return RangeError(kRate, text, kAllowed);
  return rate;
}

absl::StatusOr<double> ParsePercent(std::string_view text) {
  std::string_view rest = text;
  Decimal number;
  if (auto why = TakeDecimal(rest, number)) return SyntaxError(kPercent, text, *why);
  if (rest.empty()) return SyntaxError(kPercent, text, "it does not end with \"%\"");
  if (rest != "%") return SyntaxError(kPercent, text, fmt::format("\"{}\" is not \"%\"", Shown(rest)));
  if (number.huge || number.whole > 100 || (number.whole == 100 && number.fraction > 0)) {
    return RangeError(kPercent, text, "it must be from 0% to 100%");
  }
  const Wide scale = PowerOfTen(number.digits);
  const Wide numerator = number.whole * scale + number.fraction;
  return Divide(numerator, scale * 100);
}

absl::StatusOr<uint32_t> ParsePasses(std::string_view text) {
  std::string_view rest = text;
  MUSTER_ASSIGN_OR_RETURN(const uint32_t passes, TakeCount(kPasses, text, rest, UINT32_MAX, "the number of passes"));
  if (rest.empty()) return SyntaxError(kPasses, text, "it does not end with \"x\"");
  if (rest != "x") return SyntaxError(kPasses, text, fmt::format("\"{}\" is not \"x\"", Shown(rest)));
  return passes;
}

absl::StatusOr<Load> ParseLoad(std::string_view text) {
  std::string_view rest = text;
  Load load;
  MUSTER_ASSIGN_OR_RETURN(load.streams, TakeCount(kLoad, text, rest, kMaxLoadPart, "the number of streams (T)"));
  if (rest.empty() || rest.front() != 'T') return SyntaxError(kLoad, text, "\"T\" must follow the number of streams");
  rest.remove_prefix(1);
  MUSTER_ASSIGN_OR_RETURN(load.depth, TakeCount(kLoad, text, rest, kMaxLoadPart, "the queue depth (Q)"));
  if (rest != "Q") return SyntaxError(kLoad, text, "it must end with \"Q\" after the queue depth");
  return load;
}

std::string FormatSize(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes != 0 && unit + 1 < kNames.size() && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kNames[unit]);
}

std::string FormatBytesHuman(double bytes) {
  if (!std::isfinite(bytes)) return "n/a";
  if (bytes < 0) return fmt::format("-{}", FormatBytesHuman(-bytes));
  constexpr std::array<std::string_view, 7> kNames{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kNames.size()) {
    bytes /= 1000;
    ++unit;
  }
  if (unit == 0 && bytes == std::floor(bytes)) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{} {}", ThreeDigits(bytes), kNames[unit]);
}

std::string FormatDuration(Nanos duration) {
  if (duration == 0) return "0s";
  std::string out;
  // Negated in unsigned arithmetic, so the smallest int64 is no special case.
  auto left = static_cast<uint64_t>(duration);
  if (duration < 0) {
    out = "-";
    left = 0 - left;
  }
  if (left % kSecond == 0) {
    for (const Unit& unit : {kDurationUnits[0], kDurationUnits[1], kDurationUnits[2]}) {
      if (left >= unit.scale) out += fmt::format("{}{}", left / unit.scale, unit.name);
      left %= unit.scale;
    }
    return out;
  }
  for (const Unit& unit : {kDurationUnits[3], kDurationUnits[4]}) {
    if (left % unit.scale == 0) return out + fmt::format("{}{}", left / unit.scale, unit.name);
  }
  return out + fmt::format("{}ns", left);
}

std::string FormatLatency(double nanos) {
  if (!std::isfinite(nanos)) return "n/a";
  if (nanos < 0) return fmt::format("-{}", FormatLatency(-nanos));
  if (nanos < 999.5) return nanos == std::floor(nanos) ? fmt::format("{:.0f} ns", nanos) : ThreeDigits(nanos) + " ns";
  if (nanos < 999.5e3) return ThreeDigits(nanos / 1e3) + " us";
  if (nanos < 999.5e6) return ThreeDigits(nanos / 1e6) + " ms";
  return fmt::format("{:.1f} s", nanos / 1e9);
}

std::string FormatLoad(const Load& load) {
  return fmt::format("{}T{}Q", load.streams, load.depth);
}

std::string FormatPercent(double share) {
  if (!std::isfinite(share)) return "n/a";
  if (share < 0) return fmt::format("-{}", FormatPercent(-share));
  // The fewest decimals that give the same share back: count / scale is rounded once, as ParsePercent does.
  uint64_t one = 1;
  for (int decimals = 0; decimals <= 10; ++decimals, one *= 10) {
    const double scale = static_cast<double>(one) * 100;
    const double count = std::round(share * scale);
    if (count > 0x1.0p53) break;
    if (count / scale != share) continue;
    const auto parts = static_cast<uint64_t>(count);
    return decimals == 0 ? fmt::format("{}%", parts) : fmt::format("{}.{:0{}}%", parts / one, parts % one, decimals);
  }
  return fmt::format("{:.4f}%", share * 100);  // no short decimal
}

}  // namespace muster
