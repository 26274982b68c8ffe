"""HTTP/2 by hand (RFC 9113): a client that keeps no more rules of gRPC than a test wants. One stream a connection."""
import contextlib
import socket
import ssl
import struct
import time

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DEFAULT_WINDOW = 65535


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """A field of protobuf: a number as varint, bytes and text with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def literal(name, value):
    """A header field without indexing, without Huffman (RFC 7541 6.2.2)."""
    out = b"\x00"
    for text in (name, value):
        raw = text.encode()
        assert len(raw) < 127, text
        out += bytes([len(raw)]) + raw
    return out


class H2Client:
    def __init__(self, address, context=None):
        """`address`: HOST:PORT or unix:PATH; `context`: of ssl, for TLS."""
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(30)
            self.socket.connect(address[len("unix:"):])
        else:
            host, port = address.rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.name = "" if address.startswith("unix:") else "{}:{}".format(*self.socket.getsockname())
        if context:
            self.socket = context.wrap_socket(self.socket, server_hostname="controller.muster")
        self.stream_window, self.window, self.first_window, self.frame_size = DEFAULT_WINDOW, DEFAULT_WINDOW, DEFAULT_WINDOW, 16384
        self.ended = False  # the peer has ended the stream or the connection
        self.rest = b""
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        with contextlib.suppress(OSError):
            self.socket.close()

    def call(self, method):
        """Opens stream 1: a gRPC call whose messages follow."""
        fields = ((":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "controller.muster"),
                  ("te", "trailers"), ("content-type", "application/grpc"))
        self.socket.sendall(frame(HEADERS, END_HEADERS, 1, b"".join(literal(*f) for f in fields)))

    def hear(self):
        """Takes one frame of the peer; False when there is none any more."""
        try:
            while len(self.rest) < 9 or len(self.rest) < 9 + int.from_bytes(self.rest[:3], "big"):
                data = self.socket.recv(1 << 16)
                if not data:
                    raise ConnectionResetError
                self.rest += data
        except (ConnectionError, ssl.SSLError):
            self.ended = True
            return False
        size, kind, flags = int.from_bytes(self.rest[:3], "big"), self.rest[3], self.rest[4]
        stream, payload = struct.unpack(">I", self.rest[5:9])[0], self.rest[9:9 + size]
        self.rest = self.rest[9 + size:]
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, size, 6):
                number, value = struct.unpack(">HI", payload[at:at + 6])
                if number == 4:
                    self.stream_window += value - self.first_window
                    self.first_window = value
                elif number == 5:
                    self.frame_size = min(value, 1 << 20)
            self.socket.sendall(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            more = struct.unpack(">I", payload)[0]
            if stream:
                self.stream_window += more
            else:
                self.window += more
        elif kind in (RST_STREAM, GOAWAY) or (kind == HEADERS and flags & END_STREAM):
            self.ended = True
        return True

    def message(self, size, timeout=60):
        """Sends one gRPC message of zeros, as fast as the peer lets. Returns how many bytes went out."""
        deadline = time.monotonic() + timeout
        head, sent = b"\x00" + struct.pack(">I", size), 0
        zeros = bytes(1 << 20)
        while sent < size + 5 and not self.ended and time.monotonic() < deadline:
            room = min(self.window, self.stream_window, self.frame_size, size + 5 - sent)
            if room <= 0:
                self.hear()
                continue
            data = head + zeros[:room - 5] if sent == 0 else zeros[:room]
            try:
                self.socket.sendall(frame(DATA, 0, 1, data))
            except (ConnectionError, ssl.SSLError):
                self.ended = True
                break
            sent += room
            self.window -= room
            self.stream_window -= room
        return sent

    def say(self, *payloads):
        """Sends gRPC messages of these bytes; False: the peer has ended before all were gone."""
        data = b"".join(b"\x00" + struct.pack(">I", len(p)) + p for p in payloads)
        while data and not self.ended:
            room = min(self.window, self.stream_window, self.frame_size, len(data))
            if room <= 0:
                self.hear()
                continue
            try:
                self.socket.sendall(frame(DATA, 0, 1, data[:room]))
            except (ConnectionError, ssl.SSLError):
                self.ended = True
            data = data[room:]
            self.window -= room
            self.stream_window -= room
        return not self.ended

    def until_ended(self, timeout=60):
        deadline = time.monotonic() + timeout
        while not self.ended and time.monotonic() < deadline and self.hear():
            pass
        return self.ended
