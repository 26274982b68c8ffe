#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "controller/top/screen.h"

// The only file that knows ncurses, and last: its macros reach into what comes after.
#include <curses.h>

namespace muster {
namespace {

constexpr int kEscapeDelayMs = 50;  // after ESC, for the rest of a key's sequence
constexpr int kKeysAtOnce = 256;

std::string TermName() {
  const char* term = getenv("TERM");
  return term == nullptr ? "" : term;
}

// The fonts of consoles and real terminals lack most of the eight heights, whatever the locale says.
bool ShowsBlocks() {
  const std::string term = TermName();
  for (const std::string_view plain : {"linux", "vt", "ansi", "cons", "sun"}) {
    if (term.starts_with(plain)) return false;
  }
  return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

absl::Status Unsuitable(std::string message) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.code = "TERMINAL_UNSUITABLE",
                    .place = "TERM=" + TermName(),
                    .message = std::move(message),
                    .next = "Set TERM to what the terminal is, or use `muster watch RUN`, which prints lines."});
}

class CursesScreen final : public Screen {
 public:
  CursesScreen(SCREEN* screen, bool utf8) : screen_(screen), utf8_(utf8) {
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(kEscapeDelayMs);
    leaveok(stdscr, TRUE);
    curs_set(0);  // an error where it cannot be hidden: then it stays
    if (has_colors() && start_color() == OK && use_default_colors() == OK) {
      init_pair(1, COLOR_RED, -1);
      warn_ |= COLOR_PAIR(1);
    }
    if (isatty(STDERR_FILENO)) {
      stderr_ = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
      const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
      if (stderr_ >= 0 && null >= 0) dup2(null, STDERR_FILENO);
      if (null >= 0) close(null);
    }
  }
  ~CursesScreen() override {
    endwin();
    delscreen(screen_);
    if (stderr_ < 0) return;
    dup2(stderr_, STDERR_FILENO);
    close(stderr_);
  }

  TopSize Size() override {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0 &&
        is_term_resized(size.ws_row, size.ws_col)) {
      resizeterm(size.ws_row, size.ws_col);
      clear();
    }
    return {
        .width = static_cast<size_t>(getmaxx(stdscr)), .height = static_cast<size_t>(getmaxy(stdscr)), .utf8 = utf8_};
  }

  void Show(const TopFrame& frame) override {
    erase();
    int y = 0;
    for (const TopLine& line : frame.lines) {
      const attr_t attributes = AttributesOf(line.style);
      attrset(static_cast<int>(attributes));
      mvaddstr(y, 0, line.text.c_str());
      // To the edge, as the bar that it is. The last cell of the screen cannot be written to everywhere.
      if (line.style == TopStyle::kHeader) mvchgat(y, 0, -1, attributes, 0, nullptr);
      ++y;
    }
    attrset(A_NORMAL);
    refresh();
  }

  absl::StatusOr<std::vector<TopKey>> Keys(Nanos timeout) override {
    pollfd in{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = poll(&in, 1, static_cast<int>(timeout / kMillisecond));
    std::vector<TopKey> keys;
    int read = 0;
    for (int key = getch(); key != ERR && read < kKeysAtOnce; key = getch(), ++read) Translate(key, keys);
    if (ready > 0 && read == 0 && (in.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
      return MakeError(absl::StatusCode::kUnavailable,
                       {.code = "TERMINAL_GONE", .place = "terminal", .message = "it was closed", .next = ""});
    }
    return keys;
  }

 private:
  attr_t AttributesOf(TopStyle style) const {
    switch (style) {
      case TopStyle::kTitle:
        return A_BOLD;
      case TopStyle::kHeader:
        return A_REVERSE;
      case TopStyle::kWarn:
        return warn_;
      case TopStyle::kDim:
        return A_DIM;
      case TopStyle::kPlain:
        break;
    }
    return A_NORMAL;
  }

  static void Translate(int key, std::vector<TopKey>& keys) {
    switch (key) {
      case 'q':
      case 'Q':
      case 3:  // Ctrl-C, where the terminal does not make a signal of it
        return keys.push_back(TopKey::kQuit);
      case 'a':
        return keys.push_back(TopKey::kAgents);
      case 'i':
        return keys.push_back(TopKey::kInitiators);
      case 'l':
        return keys.push_back(TopKey::kLinks);
      case 's':
        return keys.push_back(TopKey::kSort);
      case 'r':
        return keys.push_back(TopKey::kReverse);
      case KEY_UP:
      case 'k':
        return keys.push_back(TopKey::kUp);
      case KEY_DOWN:
      case 'j':
        return keys.push_back(TopKey::kDown);
      case KEY_PPAGE:
      case 'b':
        return keys.push_back(TopKey::kPageUp);
      case KEY_NPAGE:
      case ' ':
        return keys.push_back(TopKey::kPageDown);
      case KEY_HOME:
      case 'g':
        return keys.push_back(TopKey::kHome);
      case KEY_END:
      case 'G':
        return keys.push_back(TopKey::kEnd);
      case 12:  // Ctrl-L: draw everything anew
        clearok(curscr, TRUE);
        return;
      default:
        return;  // KEY_RESIZE among them: the size is asked for at every draw
    }
  }

  SCREEN* const screen_;
  const bool utf8_;
  attr_t warn_ = A_BOLD;
  int stderr_ = -1;
};

}  // namespace

absl::Status Screen::Check() {
  for (const int fd : {STDOUT_FILENO, STDIN_FILENO}) {
    if (isatty(fd)) continue;
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.code = "NOT_A_TERMINAL",
                      .place = fd == STDOUT_FILENO ? "standard output" : "standard input",
                      .message = "it is no terminal, which this view draws on and takes keys from",
                      .next = "Use `muster watch RUN`, which prints lines, or JSON with --json."});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Screen>> Screen::Open() {
  MUSTER_RETURN_IF_ERROR(Check());
  setlocale(LC_CTYPE, "");
  SCREEN* screen = newterm(nullptr, stdout, stdin);
  if (screen == nullptr) return Unsuitable("this terminal is not known here, or cannot be drawn on");
  const char* place_cursor = tigetstr("cup");
  // -1 is what it says of a name that is no string.
  if (place_cursor == nullptr || place_cursor == reinterpret_cast<const char*>(-1)) {
    endwin();
    delscreen(screen);
    return Unsuitable("the cursor cannot be placed on it");
  }
  return std::make_unique<CursesScreen>(screen, ShowsBlocks());
}

}  // namespace muster
