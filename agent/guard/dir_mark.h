#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// The content of `.muster`: what makes a directory one that muster created, and which files in it are its own.
// Written before any file it lists exists, so that after a crash every own file is known.
struct DirMark {
  std::array<uint8_t, 16> uuid{};
  uint64_t generation = 0;            // counts guard runs on this directory: 1 for the first
  bool made_parent = false;           // the directory above was made by muster too, and goes when it is empty
  std::map<std::string, bool> files;  // own files by name; true: kept on purpose by a campaign with `keep`
};

// Text, one "key value" a line, closed by the CRC-32C of all lines before it.
std::string EncodeDirMark(const DirMark& mark);
// Nothing unless the form, every file name and the CRC are right.
std::optional<DirMark> DecodeDirMark(std::string_view text);

// A name muster may give a file: 1..200 characters of [A-Za-z0-9._-], not starting with a dot.
bool IsDataFileName(std::string_view name);

}  // namespace muster
