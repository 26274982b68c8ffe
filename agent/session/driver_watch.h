#pragma once
#include <functional>
#include <string>
#include <thread>

namespace muster::agent {

// Waits, on a thread of its own, for what ends an agent from outside: SIGTERM, SIGINT, or the far end of an inherited
// pipe closing. The signals must be blocked in all threads before the first one starts (BlockSignals).
class ExitWatch {
 public:
  // Call first thing in main.
  static void BlockSignals();
  // `pipe_fd` -1: none. `on_exit` is called on the watch's thread for every signal, and for the pipe
  // unless a signal came before: only a person insists.
  ExitWatch(int pipe_fd, std::function<void(const std::string& why)> on_exit);
  ~ExitWatch();
  ExitWatch(const ExitWatch&) = delete;
  ExitWatch& operator=(const ExitWatch&) = delete;

 private:
  void Loop();
  int pipe_fd_;
  int signal_fd_;
  int stop_fd_;
  std::function<void(const std::string& why)> on_exit_;
  std::thread thread_;
};

}  // namespace muster::agent
