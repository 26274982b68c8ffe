"""A Unix socket before a controller's that delays what goes each way by a time of its own, or lets little through."""
import queue
import threading
import time

from link_proxy import LinkProxy


class DelayProxy(LinkProxy):
    def __init__(self, path, upstream, out=0.0, back=0.0):
        """`out`, `back`: seconds from the agent to the controller and from there."""
        self.out, self.back = out, back
        self.bytes_out = 0
        super().__init__(path, upstream)

    def _pump(self, source, sink):
        with self._lock:
            outwards = any(source is near for near, _ in self._pairs)
        delay = self.out if outwards else self.back
        due = queue.Queue(4096)  # what arrives is put aside with its time, so that a delay lowers no rate

        def send():
            try:
                while (item := due.get())[1]:
                    time.sleep(max(0.0, item[0] - time.monotonic()))
                    self._carry(item[1], sink, outwards)
            except OSError:
                pass  # cut
            self._end((source, sink))
        threading.Thread(target=send, daemon=True).start()
        data = b"-"
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            due.put((time.monotonic() + delay, data))

    def _carry(self, data, sink, outwards):
        if outwards:
            self.bytes_out += len(data)
        sink.sendall(data)


class ThinProxy(DelayProxy):
    """Lets `rate` bytes a second through from the agent."""

    def __init__(self, path, upstream, rate):
        self.rate = rate
        super().__init__(path, upstream)

    def _carry(self, data, sink, outwards):
        step = max(1, self.rate // 50)
        for at in range(0, len(data), step):
            piece = data[at:at + step]
            super()._carry(piece, sink, outwards)
            if outwards:
                time.sleep(len(piece) / self.rate)
