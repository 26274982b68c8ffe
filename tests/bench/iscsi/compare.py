"""muster's iSCSI backend against a bare libiscsi loop and iscsi-perf: interleaved pairs on one tuned tgtd on loopback.

Prints the median of the paired ratios, with quartiles. CPU is that of the whole client process from its start, login
included. tgtd, on the same machine, is the limit of the rate; the client's CPU an operation is what differs.
"""
import argparse
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bin", required=True)
parser.add_argument("--pairs", type=int, default=7)
parser.add_argument("--seconds", type=int, default=3)
parser.add_argument("--only", default="")
options = parser.parse_args()
BIN = os.path.abspath(options.bin)
IQN = "iqn.2026-01.io.example.bench:disks"


class Tgt:
    """A tuned tgtd with LUN 1 (memory) and LUN 2 (`null`: no I/O)."""

    def __init__(self, place):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.env = dict(os.environ, TGT_IPC_SOCKET=os.path.join(place, "ipc"), MALLOC_MMAP_THRESHOLD_="67108864",
                        MALLOC_TRIM_THRESHOLD_="268435456", MALLOC_TOP_PAD_="67108864")
        self.log = open(os.path.join(place, "log"), "wb")
        self.process = subprocess.Popen(["tgtd", "-f", "-C", "7", "-t", "1", "--iscsi", f"portal=127.0.0.1:{self.port}"],
                                        env=self.env, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 20
        while self.admin("--op", "show", "--mode", "system", check=False) != 0:
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit("tgtd does not start")
        image = os.path.join(place, "image")
        with open(image, "wb") as f:
            for _ in range(512):
                f.write(os.urandom(1 << 20))
        self.admin("--op", "new", "--mode", "target", "--tid", "1", "-T", IQN)
        self.admin("--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", image, "--bstype", "rdwr")
        self.admin("--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "2", "-b", "/dev/null", "--bstype", "null")
        for name, value in (("MaxXmitDataSegmentLength", 262144), ("MaxRecvDataSegmentLength", 262144), ("InitialR2T", "No"),
                            ("FirstBurstLength", 262144), ("MaxBurstLength", 1048576), ("MaxQueueCmd", 512)):
            self.admin("--op", "update", "--mode", "target", "--tid", "1", "--name", name, "--value", str(value))
        self.admin("--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL")

    def admin(self, *args, check=True):
        done = subprocess.run(["tgtadm", "-C", "7", "--lld", "iscsi", *args], env=self.env, capture_output=True)
        if check and done.returncode != 0:
            sys.exit(f"tgtadm {' '.join(args)}: {done.stderr.decode()}")
        return done.returncode

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


def cpu_of(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def loop(program, tgt, lun, depth, block, sequential):
    out, cpu = cpu_of([os.path.join(BIN, program), "--port", str(tgt.port), "--target", IQN, "--lun", str(lun), "--qd", str(depth),
                       "--block", str(block), "--seconds", str(options.seconds), *(["--sequential"] if sequential else [])])
    iops = float(re.search(r"iops=([0-9.]+)", out).group(1))
    return iops, cpu * 1e6 / (iops * options.seconds)


def iscsi_perf(tgt, lun, depth, block, sequential):
    out, cpu = cpu_of(["iscsi-perf", "-m", str(depth), "-b", str(block // 512), "-t", str(options.seconds),
                       *([] if sequential else ["-r"]), f"iscsi://127.0.0.1:{tgt.port}/{IQN}/{lun}"])
    iops = float(re.findall(r"iops average ([0-9]+)", out)[-1])
    return iops, cpu * 1e6 / (iops * options.seconds)


def main():
    place = tempfile.mkdtemp(prefix="muster-bench-", dir="/dev/shm")
    tgt = None
    try:
        tgt = Tgt(place)
        for title, lun, depth, block, sequential in (
                ("4K random QD32", 1, 32, 4096, False), ("4K random QD1", 1, 1, 4096, False),
                ("128K sequential QD8", 1, 8, 131072, True), ("4K random QD32, null LUN", 2, 32, 4096, False)):
            for name, peer in (("iscsi-perf", iscsi_perf), ("bare libiscsi loop", lambda *a: loop("bare_iscsi", *a))):
                if not re.search(options.only, f"{title} {name}"):
                    continue
                ours, theirs = [], []
                for pair in range(options.pairs):
                    # Every other pair in the other order: neither side always comes after the other.
                    runs = [(ours, lambda *a: loop("iscsi_loop", *a)), (theirs, peer)]
                    for side, run in runs if pair % 2 == 0 else reversed(runs):
                        side.append(run(tgt, lun, depth, block, sequential))
                for what, index, unit in (("IOPS", 0, "/s"), ("CPU an op", 1, "us")):
                    ratios = sorted(a[index] / b[index] for a, b in zip(ours, theirs))
                    print(f"{title}, {what}: {statistics.median(ratios):.3f} x {name} "
                          f"[{ratios[len(ratios) // 4]:.3f} .. {ratios[-1 - len(ratios) // 4]:.3f}] "
                          f"({statistics.median(a[index] for a in ours):.1f} against {statistics.median(b[index] for b in theirs):.1f} {unit})",
                          flush=True)
    finally:
        if tgt:
            tgt.stop()
        shutil.rmtree(place)


main()
