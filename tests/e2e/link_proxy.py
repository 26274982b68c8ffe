"""A Unix socket between an agent and its controller that can be cut, and comes back."""
import os
import socket
import threading
import time


class LinkProxy:
    def __init__(self, path, upstream):
        """`upstream`: called for each connection; the path of the real socket."""
        self.path = path
        self.cuts = 0
        self._upstream = upstream
        self._down_until = 0.0
        self._pairs = []
        self._muted = []
        self._lock = threading.Lock()
        self._closed = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self, seconds):
        """Ends every connection and makes none for so long."""
        with self._lock:
            self._down_until = time.monotonic() + seconds
            self.cuts += 1
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            self._end(pair)

    def mute(self):
        """What is there carries nothing any more, and nobody is told; new connections are made as before."""
        with self._lock:
            self._muted = self._muted + self._pairs
            self._pairs = []

    def close(self):
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()
        with self._lock:
            self._pairs += self._muted
        self.cut(0)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    @staticmethod
    def _end(pair):
        for end in pair:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # ended already

    def _accept(self):
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                down = time.monotonic() < self._down_until
            if down:
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self._upstream())
            except OSError:
                near.close()
                continue
            with self._lock:
                self._pairs.append((near, far))
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(a, b), daemon=True).start()

    def _pump(self, source, sink):
        try:
            while data := source.recv(1 << 16):
                with self._lock:
                    mute = any(source in pair for pair in self._muted)
                if not mute:
                    sink.sendall(data)
        except OSError:
            pass  # cut
        self._end((source, sink))


def agents_through(place, program, agent, agent_id):
    """A `muster` whose local agent of that id dials a proxy; returns its path and the proxy."""
    import shutil
    folder = os.path.join(place.path, "bin")
    os.makedirs(folder)
    shutil.copy(program, folder)
    known = os.path.join(place.path, "upstream")
    front = os.path.join(place.path, "link.sock")
    wrapper = os.path.join(folder, "muster-agent")
    with open(wrapper, "w", encoding="utf-8") as f:
        f.write(f"""#!/usr/bin/env python3
import os, sys
args = sys.argv[1:]
if args[args.index("--id") + 1] == {agent_id!r}:
    at = next(i for i, a in enumerate(args) if a.startswith("unix:"))
    with open({known!r}, "w") as f:
        f.write(args[at][len("unix:"):])
    args[at] = "unix:" + {front!r}
os.execv({agent!r}, [{agent!r}, *args])
""")
    os.chmod(wrapper, 0o755)
    return os.path.join(folder, "muster"), LinkProxy(front, lambda: open(known, encoding="utf-8").read())
