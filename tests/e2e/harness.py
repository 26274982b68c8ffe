"""What the end-to-end tests share: running the real programs, temporary places, loop devices, a closing line."""
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

BIN = os.environ["MUSTER_BIN"]
SOURCE = os.environ["MUSTER_SOURCE"]
MUSTER = os.path.join(BIN, "muster")
AGENT = os.path.join(BIN, "muster-agent")


class Skip(Exception):
    """The machine cannot do what the test needs; the reason is printed."""


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def events(self):
        return [json.loads(line) for line in self.out.splitlines() if line.strip()]

    def result(self):
        found = [e for e in self.events() if e["event"] == "result"]
        assert len(found) == 1, f"one result event expected, got {len(found)}: {self.out[-2000:]} {self.err[-2000:]}"
        return found[0]

    def steps(self):
        return self.result()["run"]["steps"]

    def __repr__(self):
        return f"exit {self.code} after {self.seconds:.1f} s\nstdout: {self.out[-3000:]}\nstderr: {self.err[-3000:]}"


class Place:
    """A temporary directory of one test with a runs directory and campaign files."""

    def __init__(self, path):
        self.path = path
        self.runs = os.path.join(path, "runs")

    def file(self, name, text):
        full = os.path.join(self.path, name)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)
        return full

    def campaign(self, text):
        return self.file("campaign.yaml", text.replace("@DIR@", self.path))


def start(*args, **kwargs):
    return subprocess.Popen([MUSTER, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)


def finish(process, timeout=120, started=None):
    started = started or time.monotonic()
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"still running after {timeout} s: {out[-2000:]} {err[-2000:]}")
    return Result(process.returncode, out, err, time.monotonic() - started)


def muster(*args, timeout=120, **kwargs):
    return finish(start(*args, **kwargs), timeout)


def run(place, campaign, *args, timeout=120, **kwargs):
    return muster("run", campaign, "--runs", place.runs, "--json", *args, timeout=timeout, **kwargs)


def wait_for(condition, timeout=30, what="condition"):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"no {what} within {timeout} s")


def children_of(pid):
    out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(p) for p in out.split()]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def read_events(process, until, timeout=60):
    """Reads JSON lines of a running process until one satisfies `until`; returns all read."""
    seen = []
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        if not line:
            break
        seen.append(json.loads(line))
        if until(seen[-1]):
            return seen
    process.kill()
    raise AssertionError(f"the awaited event did not come: {seen[-5:]} {process.stderr.read()[-2000:]}")


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


def check_run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
    return done.stdout.strip()


def file_hash(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


@contextlib.contextmanager
def loop_device(place, size=256 << 20, prepare=None, name="disk.img"):
    need_root()
    image = os.path.join(place.path, name)
    with open(image, "wb") as f:
        f.truncate(size)
    if prepare:
        prepare(image)
    device = check_run("losetup", "--find", "--show", image)
    try:
        yield device, image
    finally:
        subprocess.run(["losetup", "-d", device], capture_output=True)


@contextlib.contextmanager
def tmpfs(place, size, name="small"):
    need_root()
    mount = os.path.join(place.path, name)
    os.makedirs(mount, exist_ok=True)
    check_run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", mount)
    try:
        yield mount
    finally:
        subprocess.run(["umount", mount], capture_output=True)


def near(value, expected, share):
    return abs(value - expected) <= share * expected


def main(namespace):
    """Runs every test_* function of a module, each in a temporary place of its own."""
    passed = failed = skipped = 0
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, test in sorted(namespace.items()):
        if not name.startswith("test_") or pattern not in name:
            continue
        path = tempfile.mkdtemp(prefix="muster-e2e-", dir=os.environ.get("MUSTER_TEST_DIR", "/var/tmp"))
        began = time.monotonic()
        try:
            test(Place(path))
            passed += 1
            print(f"ok      {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Skip as reason:
            skipped += 1
            print(f"SKIP    {name}: {reason}", flush=True)
        except Exception:  # a test reports whatever went wrong and the next one runs
            failed += 1
            print(f"FAILED: {name} ({time.monotonic() - began:.1f} s)\n{traceback.format_exc()}", flush=True)
        finally:
            shutil.rmtree(path, ignore_errors=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(1 if failed else 0)
