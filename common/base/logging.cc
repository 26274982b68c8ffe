#include "common/base/logging.h"

#include <fcntl.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "common/base/log_file.h"
#include "common/base/status.h"

namespace muster {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kWarning};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

// Appends whole lines with one write each, so that another process may append to the same file.
class AppendingFile final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit AppendingFile(std::string path) : path_(std::move(path)) {}
  ~AppendingFile() override {
    if (fd_ >= 0) close(fd_);
  }
  absl::Status Open() {
    const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0) {
      const ErrorInfo why = GetErrorInfo(ErrnoError(errno, "open", path_));
      return MakeError(absl::StatusCode::kUnavailable, {.code = "LOG_FILE",
                                                        .place = path_,
                                                        .message = "the log file cannot be opened: " + why.message,
                                                        .next = "Check its directory and who may write there."});
    }
    std::lock_guard lock(mutex_);
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
    return absl::OkStatus();
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const char* at = line.data();
    size_t left = line.size();
    while (left > 0) {
      const ssize_t n = write(fd_, at, left);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // a full disk ends no run
      at += n;
      left -= static_cast<size_t>(n);
    }
  }
  void flush_() override {}

  const std::string path_;
  int fd_ = -1;
};

std::mutex g_file_mutex;
std::shared_ptr<AppendingFile> g_file;  // below g_file_mutex

}  // namespace

absl::Status LogToFile(const std::string& path) {
  auto file = std::make_shared<AppendingFile>(path);
  MUSTER_RETURN_IF_ERROR(file->Open());
  auto logger = std::make_shared<spdlog::logger>(spdlog::default_logger()->name(), file);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %n %l %v", spdlog::pattern_time_type::utc);
  logger->set_level(ToSpdlog(g_level));
  spdlog::set_default_logger(std::move(logger));
  std::lock_guard lock(g_file_mutex);
  g_file = std::move(file);
  return absl::OkStatus();
}

absl::Status ReopenLogFile() {
  std::shared_ptr<AppendingFile> file;
  {
    std::lock_guard lock(g_file_mutex);
    file = g_file;
  }
  return file ? file->Open() : absl::OkStatus();
}

void InitLogging(std::string_view program, LogLevel level) {
  auto logger =
      std::make_shared<spdlog::logger>(std::string(program), std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %n %^%l%$ %v");
  logger->set_level(ToSpdlog(level));
  spdlog::set_default_logger(std::move(logger));
  g_level = level;
}

LogLevel GetLogLevel() {
  return g_level.load(std::memory_order_relaxed);
}

void LogText(LogLevel level, std::string_view text) {
  spdlog::log(ToSpdlog(level), "{}", text);
}

}  // namespace muster
