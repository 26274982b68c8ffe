"""A real iSCSI target (tgtd) on loopback for one test, and a proxy that spoils the connection to it.

The target is tuned as for benches (no memory map a command, large PDUs, unsolicited data), has a port, control number and
control socket of its own and its backing files in the test's directory, and is ended by its process id; the kernel ends it
with the test process.
"""
import ctypes
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

from harness import Skip, wait_for

IQN = "iqn.2026-11.net.muster.test"
MIB = 1 << 20
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "67108864", "MALLOC_TRIM_THRESHOLD_": "268435456", "MALLOC_TOP_PAD_": "67108864"}
SESSION = {"MaxXmitDataSegmentLength": 262144, "MaxRecvDataSegmentLength": 262144, "InitialR2T": "No",
           "FirstBurstLength": 262144, "MaxBurstLength": 1048576, "MaxQueueCmd": 512}


def need_tgtd():
    if not shutil.which("tgtd") or not shutil.which("tgtadm"):
        raise Skip("needs tgtd and tgtadm (package tgt)")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Tgtd:
    def __init__(self, place, address="127.0.0.1"):
        need_tgtd()
        self.directory = os.path.join(place.path, f"tgtd-{random.randrange(1 << 32):08x}")
        os.mkdir(self.directory)
        self.address, self.port = address, free_port()
        self.control = str(random.randrange(100, 30000))
        self.env = {**os.environ, **MALLOC, "TGT_IPC_SOCKET": os.path.join(self.directory, "ipc")}
        self.process = None
        self.done = []  # what was configured, for a restart
        self.targets = 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *ignored):
        self.kill()

    @property
    def portal(self):
        return f"{self.address}:{self.port}"

    def start(self):
        log = open(os.path.join(self.directory, "tgtd.log"), "ab")
        self.process = subprocess.Popen(["tgtd", "-f", "-C", self.control, "-t", "1", "--iscsi", f"portal={self.portal}"],
                                        stdout=log, stderr=log, env=self.env, preexec_fn=die_with_parent)
        log.close()

        def ready():
            assert self.process.poll() is None, f"tgtd ended: {open(log.name).read()[-1000:]}"
            return self.call("--op", "show", "--mode", "system").returncode == 0
        try:
            wait_for(ready, 20, "answer of tgtd")
        except BaseException:
            self.kill()
            raise

    def call(self, *args):
        return subprocess.run(["tgtadm", "-C", self.control, "--lld", "iscsi", *map(str, args)], env=self.env,
                              capture_output=True, text=True, timeout=30)

    def admin(self, *args):
        done = self.call(*args)
        assert done.returncode == 0, f"tgtadm {args}: {done.stdout} {done.stderr}"
        self.done.append(args)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()  # stopped or not: SIGTERM does not end it while it has targets
            self.process.wait(20)

    def restart(self):
        """After kill: same port, targets and files."""
        self.start()
        again, self.done = self.done, []
        for args in again:
            self.admin(*args)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def target(self, name="disk", allow="ALL", initiator=None, **parameters):
        """A target IQN:NAME; returns its number. `allow`: an address; `initiator`: a name instead."""
        self.targets += 1
        tid = self.targets
        self.admin("--op", "new", "--mode", "target", "--tid", tid, "-T", f"{IQN}:{name}")
        for key, value in {**SESSION, **parameters}.items():
            self.admin("--op", "update", "--mode", "target", "--tid", tid, "--name", key, "--value", value)
        if initiator:
            self.admin("--op", "bind", "--mode", "target", "--tid", tid, "-Q", initiator)
        elif allow:
            self.admin("--op", "bind", "--mode", "target", "--tid", tid, "-I", allow)
        return tid

    def lun(self, tid, number=1, size=64 * MIB, block=512, read_only=False, prepare=None, path=None, store="rdwr"):
        """Returns the backing file: zeroes, or what `prepare(path)` made of them."""
        if path is None:
            path = os.path.join(self.directory, f"t{tid}l{number}.img")
            with open(path, "wb") as f:
                f.truncate(size)
            if prepare:
                prepare(path)
        unit = ("--mode", "logicalunit", "--tid", tid, "--lun", number)
        self.admin("--op", "new", *unit, "-b", path, "--bstype", store, "--blocksize", block)
        if read_only:
            self.admin("--op", "update", *unit, "--params", "readonly=1")
        return path

    def chap(self, tid, user, secret, outgoing=False):
        self.admin("--op", "new", "--mode", "account", "--user", user, "--password", secret)
        self.admin("--op", "bind", "--mode", "account", "--tid", tid, "--user", user, *(["--outgoing"] if outgoing else []))

    def sessions(self):
        """{target name: [initiator name of each session, ...]}, as tgtd tells."""
        found, name = {}, None
        for line in self.call("--op", "show", "--mode", "target").stdout.splitlines():
            if match := re.match(r"Target \d+: (\S+)", line):
                name = match.group(1)
                found[name] = []
            elif match := re.match(r"\s+Initiator: (\S+)", line):
                found[name].append(match.group(1))
        return found

    def connections(self, tid):
        """(session, connection, initiator, address) of each connection of a target."""
        found, session, initiator = [], None, None
        text = self.call("--op", "show", "--mode", "conn", "--tid", tid).stdout
        for line in text.splitlines():
            if match := re.match(r"Session: (\d+)", line):
                session = match.group(1)
            elif match := re.match(r"\s+Connection: (\d+)", line):
                found.append([session, match.group(1), None, None])
            elif match := re.match(r"\s+Initiator: (\S+)", line):
                found[-1][2] = match.group(1)
            elif match := re.match(r"\s+IP Address: (\S+)", line):
                found[-1][3] = match.group(1)
        return found


class Proxy:
    """A TCP proxy on loopback. `delay`: seconds that what the target sends comes later; reset(): RST on both sides."""

    def __init__(self, port):
        self.target_port, self.delay = port, 0.0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.lock, self.pairs, self.closed, self.accepted = threading.Lock(), [], False, 0

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *ignored):
        self.closed = True
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.reset()

    @property
    def portal(self):
        return f"127.0.0.1:{self.port}"

    def accept(self):
        while not self.closed:
            try:
                client = self.server.accept()[0]
                target = socket.create_connection(("127.0.0.1", self.target_port))
            except OSError:
                continue
            self.accepted += 1
            for s in (client, target):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.pairs.append((client, target))
            threading.Thread(target=self.forward, args=(client, target), daemon=True).start()
            threading.Thread(target=self.answer, args=(target, client), daemon=True).start()

    @staticmethod
    def end(*pair):
        for s in pair:
            try:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.shutdown(socket.SHUT_RD)  # wakes whoever reads from it
            except OSError:
                pass
            s.close()

    def forward(self, source, sink):
        try:
            while data := source.recv(MIB):
                sink.sendall(data)
        except OSError:
            pass
        self.end(source, sink)

    def answer(self, source, sink):
        """What arrives is put aside with the time it is due, so that a delay does not lower the rate."""
        queue, more = [], threading.Condition()

        def send():
            try:
                while True:
                    with more:
                        more.wait_for(lambda: queue)
                        due, data = queue.pop(0)
                    if data is None:
                        break
                    time.sleep(max(0.0, due - time.monotonic()))
                    sink.sendall(data)
            except OSError:
                pass
            self.end(source, sink)
        threading.Thread(target=send, daemon=True).start()
        data = b"-"
        while data:
            try:
                data = source.recv(MIB)
            except OSError:
                data = b""
            with more:
                queue.append((time.monotonic() + self.delay, data or None))
                more.notify()

    def reset(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            self.end(*pair)


def campaign(target, step, name="iscsi", initiators=1, extra="", chap=""):
    """A campaign of one iSCSI target: options of `iscsi`, and the lines of its one step as text between braces."""
    return f"""
name: {name}
{extra}
targets: {{d: {{iscsi: {{{target}}}{chap}}}}}
initiators: {{count: {initiators}}}
steps: [{{name: one, target: d, {step}}}]
"""


def disk(tgtd, lun="1", name="disk", more=""):
    """Options of `iscsi` for LUN `lun` of target IQN:NAME; `tgtd`: whatever has a portal."""
    return f'portal: "{tgtd.portal}", iqn: "{IQN}:{name}", lun: {lun}{more}'


def kind(group, name="all"):
    return next(k for k in group["kinds"] if k["kind"] == name)


def outcomes(step):
    return {c["name"]: c["outcome"] for c in step["checks"]}


def check_sums(step, open_loop=False):
    """Rows of initiators add up to the fleet, kinds to all, histograms to counts, bytes to operations."""
    fleet = kind(step["fleet"])
    kinds = [k for k in step["fleet"]["kinds"] if k["kind"] != "all"]
    assert len(step["initiators"]) == step["initiators_asked"], step["initiators"]
    for key in ("completed", "bytes", "failed"):
        assert sum(kind(i)[key] for i in step["initiators"]) == fleet[key], (key, step)
        assert sum(k[key] for k in kinds) == fleet[key], (key, step)
    assert fleet["bytes"] == fleet["completed"] * step["workload"]["block_bytes"], fleet
    # Rates are of what ended in the window; latencies in open loop of what was due in it, whenever it ended.
    if not open_loop:
        assert fleet["response"]["count"] == fleet["completed"], fleet
    assert sum(kind(i)["response"]["sum_ns"] for i in step["initiators"]) == fleet["response"]["sum_ns"], step
    assert next(c for c in step["checks"] if c["name"] == "sums")["outcome"] == "pass", step["checks"]


def pieces(path, offset, length, size=MIB):
    with open(path, "rb") as f:
        f.seek(offset)
        for _ in range(length // size):
            yield f.read(size)
