"""A fleet under load for long: memory and descriptors stay where they were, and the sums at the end are exact.

24 initiators on 8 agents of a `muster serve`, one step that lasts MUSTER_SOAK_SECONDS (1800), every interval reported, stored
and watched. Meanwhile clients come and go, as somebody who looks now and then does. Run by `tests/run.sh --long`.
"""
import json
import os
import statistics
import threading
import time

from chaos_test import check_totals
from harness import alive, finish, main, muster
from serving import serving

AGENTS = 8
INITIATORS = 24
RATE = 100  # operations a second and initiator: two cores carry the fleet and the tests beside it
SETTLE = 90  # seconds at most before memory is compared: allocators, caches and the first pages of every histogram
WINDOWS = 6
# Flat: the median of the last window is at most so much above that of the first. What would be kept of an interval of an
# initiator, some 3 KB of its histograms, comes to 18 MiB in the controller after 5 minutes.
MEMORY_SHARE, MEMORY_BYTES = 0.03, 2 << 20

CAMPAIGN = """
name: soak
targets: {cal: {null: {latency: {mean: 1ms, shape: exponential}}}}
initiators: {count: %d}
steps:
  - name: long
    target: cal
    workload: {block: 4KiB, read: 70%%, size: 1GiB, rate: %d/s, rate_per: initiator, pacing: fixed}
    load: 1T1Q
    measure: {warmup: 5s, window: %ds}
"""


def resident(pid):
    """Resident bytes that are no pages of files: what SQLite maps of a growing file may leave any time."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        fields = dict(line.split(":", 1) for line in f)
    return 1024 * int(fields["RssAnon"].split()[0])


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Samples:
    """What each process holds, by time since the load began."""

    def __init__(self, processes):
        self.processes = processes
        self.taken = {name: [] for name in processes}  # (seconds, bytes, descriptors)
        self._began = time.monotonic()

    def take(self):
        for name, pid in self.processes.items():
            assert alive(pid), f"{name} has ended"
            self.taken[name].append((time.monotonic() - self._began, resident(pid), descriptors(pid)))

    def windows(self, name, settled):
        """Medians (bytes, descriptors) of equal pieces of the time after the warm-up."""
        rows = [r for r in self.taken[name] if r[0] >= settled]
        size = len(rows) // WINDOWS
        assert size >= 3, f"{len(rows)} samples are too few for {WINDOWS} windows"
        pieces = [rows[i * size:(i + 1) * size] for i in range(WINDOWS)]
        return [(statistics.median(r[1] for r in p), statistics.median(r[2] for r in p)) for p in pieces]


def look_now_and_then(it, stop, failures):
    """Verbs as somebody at a terminal types them, one every few seconds, each a connection that comes and goes."""
    verbs = (["agents", "--json"], ["status", "--json"])
    number = 0
    while not stop.wait(3):
        done = it.ask(*verbs[number % len(verbs)])
        number += 1
        if done.code != 0:
            failures.append(done)


def follow(watcher, seen):
    for line in watcher.stdout:
        event = json.loads(line)
        seen[event["event"]] = seen.get(event["event"], 0) + 1
        if event["event"] == "event" and seen["event"] <= 20:
            print(line.rstrip()[:300], flush=True)


def check_flat(samples, settled):
    risen = []
    for name in samples.processes:
        windows = samples.windows(name, settled)
        (first, first_fds), (last, last_fds) = windows[0], windows[-1]
        print(f"{name}: MiB {' '.join(f'{b / (1 << 20):.1f}' for b, _ in windows)}; "
              f"descriptors {' '.join(f'{d:.0f}' for _, d in windows)}", flush=True)
        if last > first * (1 + MEMORY_SHARE) + MEMORY_BYTES:
            risen.append(f"{name}: memory from {first} to {last}")
        if last_fds > first_fds:
            risen.append(f"{name}: descriptors from {first_fds} to {last_fds}")
    assert not risen, risen


def by_kind(row):
    return {kind["kind"]: kind for kind in row["kinds"]}


def check_sums(it, run, seconds):
    done = muster("results", "export", run, "--format", "json", "--runs", it.place.runs)
    assert done.code == 0, done
    exported = json.loads(done.out)
    assert exported["run"]["outcome"] == "complete", exported["run"]
    (step,) = exported["steps"]
    checks = {c["name"]: c for c in step["checks"]}
    assert all(checks[n]["outcome"] == "pass" for n in ("sums", "coverage", "errors", "links")), checks
    # A machine that stands still for an interval leaves a gap in it, told and not counted. Nothing else may be missing.
    heard = step["window"]["intervals"]
    if step["outcome"] != "VALID":
        print(f"{step['outcome']}: {checks['intervals']['evidence']}", flush=True)
        assert [n for n, c in checks.items() if c["outcome"] == "fail"] == ["intervals"], checks
        assert all("(gap" in m for m in step["missing"]) and heard >= 0.9 * seconds, step["missing"]
    check_totals(run, step)
    assert step["initiators_heard"] == INITIATORS, step["initiators_heard"]
    # A fixed rate has no scatter: each initiator was due this often in what was heard, give or take one at either edge.
    for row in step["initiators"]:
        count = by_kind(row)["all"]["response"]["count"]
        assert abs(count - RATE * heard) <= 2 * (1 + seconds - heard), (row["name"], count)
    # What was done, interval by interval, is what was done in the window. (Latencies are those of operations *due* in it.)
    window = [by_kind(i) for i in step["intervals"] if i["in_window"]]
    assert len(window) == heard, len(window)
    for name, kind in by_kind(step["fleet"]).items():
        for field in ("completed", "bytes", "failed"):
            parts = sum(row[field] for kinds in window for key, row in kinds.items() if name in ("all", key))
            assert parts == kind[field], (name, field, parts, kind[field])


def test_soak(place):
    seconds = int(os.environ.get("MUSTER_SOAK_SECONDS", "1800"))
    settled = min(SETTLE, seconds / 3)
    with serving(place) as it:
        names = [f"a{i}" for i in range(AGENTS)]
        for name in names:
            it.agent(name)
        it.wait_for_agents(*names)
        run = it.submit(place.campaign(CAMPAIGN % (INITIATORS, RATE, seconds)), "--agents", str(AGENTS))
        it.measuring(run)
        samples = Samples({"controller": it.serve.pid, **{n: p.pid for n, p in it.agents.items()}})
        watcher, seen = it.begin("watch", run, "--json"), {}
        stop, failures = threading.Event(), []
        threads = [threading.Thread(target=look_now_and_then, args=(it, stop, failures)),
                   threading.Thread(target=follow, args=(watcher, seen))]
        for thread in threads:
            thread.start()
        try:
            end = time.monotonic() + seconds - 3
            while time.monotonic() < end:
                samples.take()
                time.sleep(1)  # the distance of samples
            assert watcher.poll() is None, "the watcher has ended early"
            it.wait_for_run(run, lambda r: r["state"] == "ended", 120)
        finally:
            stop.set()
            threads[0].join(120)
            if watcher.poll() is None and run in it.runs() and it.runs()[run]["state"] != "ended":
                watcher.kill()
            threads[1].join(120)
            finish(watcher, 60)
        assert not failures, failures[0]
        check_flat(samples, settled)
        check_sums(it, run, seconds)
        assert watcher.returncode in (0, 1) and seen["live"] >= 0.9 * seconds and seen["result"] == 1, (watcher.returncode, seen)
        # Clients are gone, and so is what their connections held.
        assert descriptors(it.serve.pid) <= min(r[2] for r in samples.taken["controller"]) + 1
        code, err = it.stop()
        assert code == 0, err


if __name__ == "__main__":
    main(globals())
