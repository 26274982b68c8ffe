"""A program on a real pseudo terminal, and what its screen shows: the control sequences that terminfo's usual entries use."""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

SEQUENCE = re.compile(r"\x1b\[([?>]?)([0-9;]*)([@-~])|\x1b[()]([0-9A-Za-z])|\x1b([=>78DEMHc])|\x1b\]([^\x07]*)\x07")


class Screen:
    """A grid of characters. Attributes are dropped; modes that are set are remembered by number."""

    def __init__(self, width, height):
        self.modes = set()
        self.rest = ""
        self.unknown = []
        self.resize(width, height)

    def resize(self, width, height):
        self.width, self.height = width, height
        self.cells = [[" "] * width for _ in range(height)]
        self.x = self.y = 0
        self.top, self.bottom = 0, height - 1

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines())

    def scroll(self, top, bottom, count):
        """Up by `count`, down if negative."""
        for _ in range(abs(count)):
            blank = [" "] * self.width
            if count > 0:
                del self.cells[top]
                self.cells.insert(bottom, blank)
            else:
                del self.cells[bottom]
                self.cells.insert(top, blank)

    def down(self):
        if self.y == self.bottom:
            self.scroll(self.top, self.bottom, 1)
        else:
            self.y = min(self.y + 1, self.height - 1)

    def put(self, char):
        if self.x >= self.width:  # the cursor waits behind the last column
            self.x = 0
            self.down()
        self.cells[self.y][self.x] = char
        self.last = char
        self.x += 1

    def feed(self, text):
        text = self.rest + text
        at = 0
        while at < len(text):
            char = text[at]
            if char == "\x1b":
                found = SEQUENCE.match(text, at)
                if not found:
                    if len(text) - at < 64:
                        break  # the rest of it is yet to come
                    self.unknown.append(text[at:at + 16])
                    at += 1
                    continue
                self.obey(found)
                at = found.end()
                continue
            if char == "\r":
                self.x = 0
            elif char == "\n":
                self.down()
            elif char == "\b":
                self.x = max(0, min(self.x, self.width) - 1)
            elif char == "\t":
                self.x = min(self.width - 1, (self.x // 8 + 1) * 8)
            elif char >= " ":
                self.put(char)
            at += 1
        self.rest = text[at:]

    def obey(self, found):
        private, numbers, final, _, single, _ = found.groups()
        if single:
            if single == "M":
                if self.y == self.top:
                    self.scroll(self.top, self.bottom, -1)
                else:
                    self.y -= 1
            elif single == "D":
                self.down()
            elif single == "E":
                self.x = 0
                self.down()
            return
        if final is None:
            return
        given = [int(n) if n else 0 for n in numbers.split(";")]
        n = max(1, given[0])
        if private:
            for mode in given:
                (self.modes.add if final == "h" else self.modes.discard)(mode)
            if final == "h" and 1049 in given:
                self.resize(self.width, self.height)
            return
        x = min(self.x, self.width - 1)
        row = self.cells[self.y]
        if final in "Hf":
            self.y = min(self.height, n) - 1
            self.x = min(self.width, max(1, given[1] if len(given) > 1 else 1)) - 1
        elif final == "A":
            self.y = max(0, self.y - n)
        elif final == "B":
            self.y = min(self.height - 1, self.y + n)
        elif final == "C":
            self.x = min(self.width - 1, x + n)
        elif final == "D":
            self.x = max(0, x - n)
        elif final in "G`":
            self.x = min(self.width, n) - 1
        elif final == "d":
            self.y = min(self.height, n) - 1
        elif final == "J":
            if given[0] == 0:
                row[x:] = [" "] * (self.width - x)
            else:
                row[:x + 1] = [" "] * (x + 1)
            for y in range(self.height):
                if given[0] == 2 or (given[0] == 0 and y > self.y) or (given[0] == 1 and y < self.y):
                    self.cells[y] = [" "] * self.width
        elif final == "K":
            if given[0] == 0:
                row[x:] = [" "] * (self.width - x)
            elif given[0] == 1:
                row[:x + 1] = [" "] * (x + 1)
            else:
                row[:] = [" "] * self.width
        elif final == "X":
            row[x:x + n] = [" "] * len(row[x:x + n])
        elif final == "@":
            row[x:x] = [" "] * n
            del row[self.width:]
        elif final == "P":
            del row[x:x + n]
            row += [" "] * (self.width - len(row))
        elif final == "L":
            self.scroll(self.y, self.bottom, -n)
        elif final == "M":
            self.scroll(self.y, self.bottom, n)
        elif final == "S":
            self.scroll(self.top, self.bottom, n)
        elif final == "T":
            self.scroll(self.top, self.bottom, -n)
        elif final == "b":
            for _ in range(n):
                self.put(self.last)
        elif final == "r":
            self.top = n - 1
            self.bottom = (given[1] if len(given) > 1 and given[1] else self.height) - 1
            self.x = self.y = 0
        elif final not in "mhltc":
            self.unknown.append(found.group(0))


class Terminal:
    """Runs a program on a terminal of its own, as its controlling one."""

    def __init__(self, command, width=80, height=24, term="xterm-256color", locale="C.UTF-8"):
        self.master, self.slave = pty.openpty()
        self.screen = Screen(width, height)
        self.raw = b""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.size(width, height)
        self.before = termios.tcgetattr(self.slave)
        env = {k: v for k, v in os.environ.items() if k not in ("LINES", "COLUMNS", "LANG", "LC_CTYPE")}
        env.update(TERM=term, LC_ALL=locale)
        self.process = subprocess.Popen(
            command, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=env, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def size(self, width, height):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def resize(self, width, height):
        """The program draws everything anew after it."""
        self.read(0)
        self.screen.resize(width, height)
        self.size(width, height)

    def read(self, timeout):
        ready, _, _ = select.select([self.master], [], [], timeout)
        if not ready:
            return False
        data = os.read(self.master, 65536)
        self.raw += data
        self.screen.feed(self.decoder.decode(data))
        return True

    def wait(self, condition, timeout=30, what="that screen"):
        """Reads until the screen's text is as wished; gives it."""
        deadline = time.monotonic() + timeout
        while True:
            if condition(self.screen.text()):
                return self.screen.text()
            assert time.monotonic() < deadline, f"no {what} within {timeout} s:\n{self.screen.text()}\n{self.screen.unknown}"
            self.read(0.1)

    def keys(self, text):
        os.write(self.master, text.encode())

    def ended(self, timeout=20):
        """Reads on, which an ending program may wait for, until it is over; gives its exit code."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still there after {timeout} s:\n{self.screen.text()}"
            self.read(0.05)
        while self.read(0):
            pass
        return self.process.returncode

    def restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for fd in (self.master, self.slave):
            if fd >= 0:
                os.close(fd)
