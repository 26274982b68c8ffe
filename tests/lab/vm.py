"""Runs one case in a virtual machine and tells what it printed: vm.py CASE [only tests whose name contains this].

QEMU without acceleration (TCG), one processor, one machine at a time on this host (a lock), no network: the guest has a
folder of this host as its share and nothing else. Ended by power off in the guest, else by the deadline, else with this
process. Exit code: 0 passed, 1 failed, 77 cannot be done here (reason printed).
"""
import ctypes
import fcntl
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BIN = os.environ.get("MUSTER_BIN", os.path.join(SOURCE, "build/release/bin"))
OUT = os.environ.get("MUSTER_LAB", os.path.join(SOURCE, "build/lab"))
LOCK = "/var/tmp/muster-lab.lock"
WAIT_FOR_LOCK, BOOT, DEADLINE = 1200, 180, 900  # seconds
OF_GLIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|anl|util|nss_.*)\.so.*)$")


def skip(reason):
    print(f"SKIP    lab: {reason}")
    sys.exit(77)


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def stage(share):
    """The programs, the libraries they need beyond glibc, and the scripts."""
    for folder in ("bin", "lib", "out", "tests/lab", "tests/e2e"):
        os.makedirs(os.path.join(share, folder))
    for program in ("muster", "muster-agent"):
        path = os.path.join(BIN, program)
        if not os.path.exists(path):
            skip(f"{path} is not built")
        shutil.copy(path, os.path.join(share, "bin"))
        subprocess.run(["strip", "--strip-debug", os.path.join(share, "bin", program)], capture_output=True, check=False)
        for line in subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout.splitlines():
            found = re.match(r"\s*(\S+) => (/\S+)", line)
            if found and not OF_GLIBC.match(found[1]):
                shutil.copy(found[2], os.path.join(share, "lib", found[1]))
    for folder in ("cases", "guest"):
        shutil.copytree(os.path.join(HERE, folder), os.path.join(share, "tests/lab", folder))
    for name in ("kernel.py", "initiator.py"):
        shutil.copy(os.path.join(HERE, name), os.path.join(share, "tests/lab"))
    for name in ("harness.py", "tgtd.py"):
        shutil.copy(os.path.join(SOURCE, "tests/e2e", name), os.path.join(share, "tests/e2e"))


def boot(share, case, only):
    """One start. Returns the exit code of the case; None: the guest did not get as far as starting it."""
    console = os.path.join(share, "console")
    command = ["nice", "-n", "10", "qemu-system-x86_64", "-accel", "tcg,thread=single,tb-size=256", "-M", "q35", "-smp", "1", "-cpu", "max",
               "-m", "2048", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", f"file:{console}",
               "-monitor", "none", "-kernel", os.path.join(OUT, "vmlinuz"), "-initrd", os.path.join(OUT, "initrd.gz"),
               "-append", f"console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable clocksource=tsc "
                          f"lab.case={case} lab.only={only}",
               "-drive", f"file={OUT}/root.ext4,format=raw,if=virtio,readonly=on,cache=unsafe,aio=threads",
               "-fsdev", f"local,id=lab,path={share},security_model=none,multidevs=remap",
               "-device", "virtio-9p-pci,fsdev=lab,mount_tag=lab", "-device", "virtio-rng-pci"]
    with open(os.path.join(share, "qemu.log"), "ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent)
    began, started = time.monotonic(), False
    try:
        while process.poll() is None:
            time.sleep(0.2)  # of the machine's own process; nothing else could be waited for
            started = started or os.path.exists(os.path.join(share, "out/output"))
            if time.monotonic() - began > (DEADLINE if started else BOOT):
                break
    finally:
        process.kill()
        process.wait()
    try:
        with open(os.path.join(share, "out/rc")) as f:
            return int(f.read())
    except (FileNotFoundError, ValueError):
        return 1 if started else None


def tell(share, name, last=0):
    try:
        with open(os.path.join(share, name), errors="replace") as f:
            lines = f.read().splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(lines[-last:])


def main():
    case, only = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    if not os.path.exists(os.path.join(HERE, "cases", f"{case}.py")):
        sys.exit(f"no such case: {case}")
    try:
        lock = open(LOCK, "w")
    except PermissionError:
        skip(f"{LOCK} belongs to another user; run as root")
    with lock:
        since = time.monotonic()
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - since > WAIT_FOR_LOCK:
                    skip("another machine of the lab has been running for too long")
                time.sleep(1)
        built = subprocess.run([os.path.join(HERE, "build.sh"), OUT], capture_output=True, text=True)
        if built.returncode == 77:
            skip(built.stdout.strip().splitlines()[-1].removeprefix("SKIP lab: "))
        if built.returncode != 0:
            sys.exit(f"build.sh: {built.stdout}{built.stderr}\n0 passed, 1 failed, 0 skipped")
        for left in glob.glob("/var/tmp/muster-lab-*/"):  # of a run that was killed, or kept: with the lock held, nobody's
            shutil.rmtree(left, ignore_errors=True)
        share = tempfile.mkdtemp(prefix="muster-lab-", dir="/var/tmp")
        try:
            stage(share)
            began = time.monotonic()
            code = boot(share, case, only)
            if code is None:
                print(f"the machine did not come up, once more; console:\n{tell(share, 'console', 20)}", flush=True)
                code = boot(share, case, only)
            output = tell(share, "out/output")
            print(output)
            print(f"machine: {time.monotonic() - began:.0f} s", flush=True)
            if code is None:
                sys.exit(f"the machine did not come up:\n{tell(share, 'console', 40)}{tell(share, 'qemu.log', 10)}\n0 passed, 1 failed, 0 skipped")
            if code != 0 or os.environ.get("MUSTER_LAB_VERBOSE"):
                print(f"console:\n{tell(share, 'console', 30)}\nkernel:\n{tell(share, 'out/dmesg', 40)}")
            counts = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", output, re.M)
            if not counts:
                print("the case did not come to its end\n0 passed, 1 failed, 0 skipped")
                sys.exit(1)
            sys.exit(1 if code != 0 else 0)
        finally:
            if not os.environ.get("MUSTER_LAB_KEEP"):
                shutil.rmtree(share, ignore_errors=True)


if __name__ == "__main__":
    main()
