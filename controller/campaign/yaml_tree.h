#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/campaign/campaign.h"
#include "controller/campaign/problems.h"

namespace muster {

struct YamlEntry;

// One YAML value with its place. Scalars are text: what they mean is for the rule of the field to say.
struct YamlNode {
  enum class Kind { kBroken, kNull, kScalar, kSequence, kMap };  // broken: a problem was noted, ignore it
  Kind kind = Kind::kBroken;
  SourcePosition at;
  std::string text;                // of a scalar
  std::vector<YamlNode> items;     // of a sequence
  std::vector<YamlEntry> entries;  // of a map, in the order of the file, keys unique
};

struct YamlEntry {
  std::string key;
  SourcePosition at;  // of the key
  YamlNode value;
};

inline constexpr size_t kYamlMaxBytes = 1 << 20;
inline constexpr int kYamlMaxDepth = 32;
inline constexpr int kYamlMaxNodes = 100'000;

// Parses the one document of `text`. Problems found are added; the tree is what could be read nevertheless, absent when
// that is nothing. Limits hold while parsing, so no bomb is ever built. Columns count characters, not bytes.
// Anchors, aliases, merge keys, tags, duplicate keys, further documents and keys that are no text are problems.
std::optional<YamlNode> ParseYaml(std::string_view text, Problems& problems);

}  // namespace muster
