"""A real iSCSI target for tests: a tgtd on a free loopback port, tuned, its control socket and files in a test's directory."""
import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess

from harness import Skip, check_run, wait_for

MALLOC = {"MALLOC_MMAP_THRESHOLD_": "67108864", "MALLOC_TRIM_THRESHOLD_": "268435456", "MALLOC_TOP_PAD_": "67108864"}
SESSION = {"MaxXmitDataSegmentLength": 262144, "MaxRecvDataSegmentLength": 262144, "InitialR2T": "No", "FirstBurstLength": 262144,
           "MaxBurstLength": 1048576, "MaxQueueCmd": 512}
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Tgt:
    CONTROL = "7"  # the socket's name ends with it; the socket lies in the test's directory

    def __init__(self, place):
        self.path = os.path.join(place.path, "tgt")
        self.ipc = os.path.join(self.path, "ipc")
        self.environment = {**os.environ, **MALLOC, "TGT_IPC_SOCKET": self.ipc}
        self.targets = 0
        self.process = None
        os.makedirs(self.path)
        for _ in range(5):  # another process may take the port in between
            self.port = free_port()
            self.process = subprocess.Popen(
                ["tgtd", "-f", "-C", self.CONTROL, "-t", "1", "--iscsi", f"portal=127.0.0.1:{self.port}"], env=self.environment,
                stdin=subprocess.DEVNULL, stdout=open(os.path.join(self.path, "log"), "ab"), stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent)
            wait_for(lambda: self.process.poll() is not None or self._ready(), what="tgtd")
            if self.process.poll() is None:
                return
        raise AssertionError("tgtd does not start: " + open(os.path.join(self.path, "log")).read()[-2000:])

    @property
    def portal(self):
        return f"127.0.0.1:{self.port}"

    def _ready(self):
        return subprocess.run(self._command("--op", "show", "--mode", "system"), capture_output=True, env=self.environment).returncode == 0

    def _command(self, *args):
        return ["tgtadm", "-C", self.CONTROL, "--lld", "iscsi", *args]

    def admin(self, *args):
        check_run("env", f"TGT_IPC_SOCKET={self.ipc}", *self._command(*args))

    def target(self, iqn):
        self.targets += 1
        tid = str(self.targets)
        self.admin("--op", "new", "--mode", "target", "--tid", tid, "-T", iqn)
        for name, value in SESSION.items():
            self.admin("--op", "update", "--mode", "target", "--tid", tid, "--name", name, "--value", str(value))
        self.admin("--op", "bind", "--mode", "target", "--tid", tid, "-I", "ALL")
        return tid

    def lun(self, tid, number, size=64 << 20, block=512, **params):
        """Adds a LUN of zeroes, and returns its backing file."""
        path = os.path.join(self.path, f"t{tid}l{number}.img")
        with open(path, "wb") as f:
            f.truncate(size)
        where = ("--mode", "logicalunit", "--tid", tid, "--lun", str(number))
        self.admin("--op", "new", *where, "-b", path, "--blocksize", str(block))
        for name, value in params.items():
            self.admin("--op", "update", *where, "--params", f"{name}={value}")
        return path

    def account(self, tid, user, secret, outgoing=False):
        self.admin("--op", "new", "--mode", "account", "--user", user, "--password", secret)
        self.admin("--op", "bind", "--mode", "account", "--tid", tid, "--user", user, *(["--outgoing"] if outgoing else []))

    def end(self):
        self.process.kill()  # this very process, by its id
        self.process.wait()


@contextlib.contextmanager
def tgt(place):
    if not shutil.which("tgtd") or not shutil.which("tgtadm"):
        raise Skip("needs tgtd and tgtadm (package tgt)")
    server = Tgt(place)
    try:
        yield server
    finally:
        server.end()
