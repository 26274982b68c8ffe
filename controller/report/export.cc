#include "controller/report/export.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <streambuf>
#include <vector>

#include "common/base/status.h"
#include "controller/report/report.h"

namespace muster {
namespace {

absl::Status Failed(int err, std::string_view what, const std::string& path) {
  return MakeError(absl::StatusCode::kInternal,
                   {.code = "EXPORT_FAILED",
                    .place = path,
                    .message = fmt::format("{}: {}", what, std::strerror(err)),
                    .next = "Nothing was changed there; choose another place with --output."});
}

// A stream onto a descriptor that keeps the reason of the first failure.
class DescriptorBuffer final : public std::streambuf {
 public:
  explicit DescriptorBuffer(int fd) : fd_(fd), buffer_(1 << 16) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }
  int error() const { return error_; }

 protected:
  int overflow(int c) override {
    if (sync() != 0) return traits_type::eof();
    if (c == traits_type::eof()) return traits_type::not_eof(c);
    *pptr() = static_cast<char>(c);
    pbump(1);
    return c;
  }
  int sync() override {
    for (const char* at = pbase(); at < pptr();) {
      const ssize_t n = write(fd_, at, static_cast<size_t>(pptr() - at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        if (error_ == 0) error_ = errno;
        return -1;
      }
      at += n;
    }
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return 0;
  }

 private:
  int fd_;
  int error_ = 0;
  std::vector<char> buffer_;
};

absl::Status WriteTo(RunReader& reader, ExportFormat format, int fd, const std::string& path, bool sync) {
  DescriptorBuffer buffer(fd);
  std::ostream out(&buffer);
  absl::Status status = Export(reader, format, out);
  if (buffer.error() != 0) return Failed(buffer.error(), "cannot write", path);
  if (status.ok() && sync && fsync(fd) != 0) return Failed(errno, "cannot write", path);
  return status;
}

// A pipe or a device is written through: replacing /dev/stdout by a file would take it from everybody.
absl::Status WriteThrough(RunReader& reader, ExportFormat format, const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return Failed(errno, "cannot open it", path);
  absl::Status status = WriteTo(reader, format, fd, path, false);
  if (close(fd) != 0 && status.ok()) status = Failed(errno, "cannot write", path);
  return status;
}

}  // namespace

absl::StatusOr<ExportFormat> ParseExportFormat(std::string_view name) {
  if (name == "json") return ExportFormat::kJson;
  if (name == "json-histograms") return ExportFormat::kJsonHistograms;
  if (name == "csv") return ExportFormat::kCsv;
  if (name == "csv-intervals") return ExportFormat::kCsvIntervals;
  if (name == "hlog") return ExportFormat::kHlog;
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = "FORMAT_UNKNOWN",
                    .place = "--format",
                    .message = fmt::format("there is no format \"{}\"", name),
                    .next = "Formats are json, json-histograms, csv, csv-intervals and hlog."});
}

absl::Status Export(RunReader& reader, ExportFormat format, std::ostream& out) {
  absl::Status status;
  switch (format) {
    case ExportFormat::kJson:
      status = ExportJson(reader, /*spelled_out=*/false, out);
      break;
    case ExportFormat::kJsonHistograms:
      status = ExportJson(reader, /*spelled_out=*/true, out);
      break;
    case ExportFormat::kCsv:
      status = ExportCsv(reader, out);
      break;
    case ExportFormat::kCsvIntervals:
      status = ExportCsvIntervals(reader, out);
      break;
    case ExportFormat::kHlog:
      status = ExportHlog(reader, out);
      break;
  }
  if (!status.ok()) return status;
  out.flush();
  return out.good() ? absl::OkStatus() : Failed(EIO, "cannot write", "the output");
}

absl::Status ExportToFile(RunReader& reader, ExportFormat format, const std::string& given) {
  std::string path = given;
  struct stat info {};
  if (stat(given.c_str(), &info) == 0) {
    if (S_ISBLK(info.st_mode)) return Failed(EINVAL, "it is a block device", given);
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return WriteThrough(reader, format, given);
    // The file behind a link is replaced, not the link.
    if (char* real = realpath(given.c_str(), nullptr); real != nullptr) {
      path = real;
      free(real);
    }
  }
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return Failed(errno, "cannot create a file beside it", path);
  absl::Status status = WriteTo(reader, format, fd, path, true);
  if (close(fd) != 0 && status.ok()) status = Failed(errno, "cannot write", path);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = Failed(errno, "cannot replace it", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace muster
