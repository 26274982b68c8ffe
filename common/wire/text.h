#pragma once
#include <string>
#include <string_view>

namespace muster {

// Text as a proto3 `string` field of at most `max` bytes may carry it: bytes that are no UTF-8 (a file name, a device's
// serial) become '?', longer text is cut between characters and ends with "...". Never fails: a diagnosis must not be
// lost because it cannot be encoded.
std::string WireText(std::string_view text, size_t max);

}  // namespace muster
