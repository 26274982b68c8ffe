#include "common/base/logging.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

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

}  // namespace

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
