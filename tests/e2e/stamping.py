"""A TCP proxy before an iSCSI target that stamps every PDU of the initiator with CLOCK_MONOTONIC (RFC 7143 11.2)."""
import threading
import time

from tgtd import MIB, Proxy

# Opcodes of an initiator (RFC 7143 11.2.1.2).
NOP_OUT, SCSI_COMMAND, TASK_MANAGEMENT, LOGIN, TEXT, DATA_OUT, LOGOUT = 0, 1, 2, 3, 4, 5, 6
BHS = 48


class Pdus:
    """Finds the PDUs of one connection in its bytes. No digests: muster asks for none unless it is told to."""

    def __init__(self):
        self.head, self.skip = b"", 0

    def take(self, data):
        """The opcodes of the PDUs that begin in `data`, by when their 48 bytes of header are there."""
        found, at = [], 0
        while at < len(data):
            if self.skip:
                step = min(self.skip, len(data) - at)
                self.skip -= step
                at += step
                continue
            step = min(BHS - len(self.head), len(data) - at)
            self.head += data[at:at + step]
            at += step
            if len(self.head) == BHS:
                length = int.from_bytes(self.head[5:8], "big")
                self.skip = 4 * self.head[4] + (length + 3) // 4 * 4
                found.append(self.head[0] & 0x3F)
                self.head = b""
        return found


class StampingProxy(Proxy):
    def __init__(self, port):
        super().__init__(port)
        self._stamps = {}
        self._guard = threading.Lock()

    def forward(self, source, sink):
        pdus = Pdus()
        try:
            while data := source.recv(MIB):
                now = time.monotonic()  # before anything else is done with it
                found = pdus.take(data)
                with self._guard:
                    for opcode in found:
                        first, _, count = self._stamps.get(opcode, (now, now, 0))
                        self._stamps[opcode] = (first, now, count + 1)
                sink.sendall(data)
        except OSError:
            pass  # ended
        self.end(source, sink)

    def last(self, opcode):
        """When the last PDU of that kind came; 0: none did."""
        with self._guard:
            return self._stamps.get(opcode, (0, 0, 0))[1]

    def count(self, opcode):
        with self._guard:
            return self._stamps.get(opcode, (0, 0, 0))[2]
