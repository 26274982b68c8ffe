#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/campaign/campaign.h"

namespace muster {

// The problems found in one campaign file. A user wants to see all at once, so reading goes on after a problem where it
// can; the first ten in the order of the file become one typed error.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}

  void Add(SourcePosition at, std::string code, std::string message, std::string next = {});
  // A typed error made elsewhere, at this place.
  void Add(SourcePosition at, const absl::Status& status);

  bool empty() const { return problems_.empty(); }
  size_t size() const { return problems_.size(); }
  // So many that going on is of no use to anybody.
  bool full() const { return problems_.size() >= 100; }
  std::string Place(SourcePosition at) const;

  // OK without problems; else the first one's code, place and message, the others a line each in the next step.
  absl::Status ToStatus() const;

 private:
  struct Problem {
    SourcePosition at;
    std::string code, message, next;
  };
  std::string file_;
  std::vector<Problem> problems_;
};

}  // namespace muster
