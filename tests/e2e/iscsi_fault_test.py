"""What happens to a run when its iSCSI target dies, hangs, comes back, or its connections are cut or slow."""
import json
import os
import time

from harness import finish, main, muster, read_events, start
from tgtd import MIB, Proxy, Tgtd, campaign, check_sums, disk, kind, outcomes

SECOND = 1_000_000_000
STEP = "workload: {{read: 50%, size: 16MiB}}, load: 2T4Q, measure: {{warmup: 1s, window: {window}s}}"


class Faulted:
    """A run of two initiators during which something is done to its target, and what came of it."""

    def __init__(self, place, target, fault, op_timeout="3s", window=5, step=STEP, at=1):
        text = campaign(disk(target), step.format(window=window), initiators=2, extra=f"op_timeout: {op_timeout}")
        process = start("run", place.campaign(text), "--runs", place.runs, "--json", "--local", "2")
        try:
            read_events(process, lambda e: e["event"] == "live" and e["interval"] >= at)
            fault()
            began = time.monotonic()
            done = finish(process, 60)
        except BaseException:
            process.kill()
            raise
        self.done, self.result, self.step = done, done.result(), done.steps()[0]
        self.seconds = time.monotonic() - began
        self.fleet = kind(self.step["fleet"])
        exported = muster("results", "--runs", place.runs, "export", "last", "--format", "json")
        assert exported.code == 0, exported
        self.intervals = json.loads(exported.out)["steps"][0]["intervals"]
        self.window = window
        self.open_loop = "rate:" in step
        self.check()

    def completed(self, row):
        return sum(k["completed"] for k in row["kinds"])

    def empty(self):
        return [row["interval"] for row in self.intervals if self.completed(row) == 0]

    def check(self):
        """What holds after every fault."""
        step = self.step
        check_sums(step, self.open_loop)  # submitted = completed + failed + aborted + abandoned is part of the check `sums`
        assert outcomes(step)["intervals"] == "pass" and step["missing_count"] == 0, step["checks"]
        assert [row["interval"] for row in self.intervals] == list(range(self.window + 1)), "none is missing"
        # Failed operations are in no rate and in no histogram of successes.
        inside = [row for row in self.intervals if row["in_window"]]
        assert len(inside) == self.window and sum(map(self.completed, inside)) == self.fleet["completed"]
        assert self.fleet["iops"] == self.fleet["completed"] / self.window
        for row in inside:
            for k in row["kinds"]:
                assert k["response"]["count"] == k["completed"] and k["bytes"] == 4096 * k["completed"], row
        # INVALID exactly when operations failed.
        # What a timeout or a lost connection takes with it has failed; nobody aborted it.
        self.failed = sum(e["count"] for e in step["errors"])
        assert not [e for e in step["errors"] if e["class"] == "aborted"], step["errors"]
        assert (step["outcome"] == "INVALID") == (self.failed > 0), (step["outcome"], step["errors"], step["checks"])
        assert (step["outcome"] == "VALID") == (self.failed == 0), (step["outcome"], step["checks"])
        assert self.done.code == (1 if self.failed else 0), self.done
        assert self.result["outcome"] == "complete", self.result

    def longest(self):
        return self.fleet["response_max_ns"]


def target(place):
    tgtd = Tgtd(place)
    tgtd.__enter__()
    try:
        tgtd.lun(tgtd.target(), 1, 20 * MIB)
    except BaseException:
        tgtd.kill()
        raise
    return tgtd


def restart_after(tgtd, seconds):
    def fault():
        tgtd.kill()
        time.sleep(seconds)  # the outage itself
        tgtd.restart()
    return fault


def stop_for(tgtd, seconds):
    def fault():
        tgtd.pause()
        time.sleep(seconds)  # the outage itself
        tgtd.resume()
    return fault


def show(name, run):
    errors = [(e["kind"], e["class"], e["native_code"], e["count"]) for e in run.step["errors"]]
    print(f"        {name}: {run.step['outcome']}, empty {run.empty()}, max {run.longest() / 1e9:.2f} s, {errors}, "
          f"{run.seconds:.1f} s after", flush=True)


def test_killed_and_restarted(place):
    tgtd = target(place)
    try:
        run = Faulted(place, tgtd, restart_after(tgtd, 2), window=6)
        show("kill", run)
        assert 1 <= run.failed <= 2 * 8, run.step["errors"]  # what was outstanding, and no more: nothing is re-sent
        assert run.empty(), "an outage of two seconds leaves an empty interval"
        assert run.completed(run.intervals[-1]) > 0, "and the load goes on after it"
    finally:
        tgtd.kill()


def test_killed_for_good(place):
    tgtd = target(place)
    try:
        run = Faulted(place, tgtd, tgtd.kill, op_timeout="1s", window=4)
        show("killed for good", run)
        assert run.failed >= 1 and run.empty()[-1] == run.window
        assert run.seconds < 4 + 1 + 5 + 10, run.seconds  # window, op timeout, drain, slack
    finally:
        tgtd.kill()


def test_stopped_below_the_timeout(place):
    tgtd = target(place)
    try:
        run = Faulted(place, tgtd, stop_for(tgtd, 5), op_timeout="20s", window=7)
        show("stop 5 s", run)
        assert run.failed == 0 and run.step["errors"] == [], run.step["errors"]
        assert 4.5 * SECOND <= run.longest() < 7 * SECOND, run.longest()
        assert len(run.empty()) >= 3, run.empty()
        stalled = next(row for row in run.intervals if row["interval"] == run.empty()[1])
        assert stalled["outstanding"] == 16 and stalled["oldest_age_ns"] > SECOND, stalled
        for name in ("read", "write"):
            assert kind(run.step["fleet"], name)["response"]["max_ns"] >= 4.5 * SECOND, name
    finally:
        tgtd.kill()


def test_stopped_beyond_the_timeout(place):
    tgtd = target(place)
    try:
        run = Faulted(place, tgtd, stop_for(tgtd, 6), op_timeout="3s", window=8)
        show("stop 6 s, timeout 3 s", run)
        assert run.failed >= 16, run.step["errors"]
        assert "timeout" in {e["class"] for e in run.step["errors"]}, run.step["errors"]
        # What timed out is in no success histogram; what waited for the connection to come back is, with its wait.
        assert run.fleet["service"]["max_ns"] <= 3 * SECOND <= run.fleet["response"]["max_ns"] + SECOND, run.fleet
        assert len(run.empty()) >= 4 and run.completed(run.intervals[-1]) > 0, run.empty()
    finally:
        tgtd.kill()


def test_stopped_until_the_end(place):
    tgtd = target(place)
    try:
        run = Faulted(place, tgtd, tgtd.pause, op_timeout="3s", window=4)
        show("stopped until the end", run)
        assert run.failed == 16 and run.empty()[-1] == run.window, run.step["errors"]
        assert run.seconds < 4 + 3 + 5 + 10, run.seconds
    finally:
        tgtd.kill()


def test_connections_reset(place):
    tgtd = target(place)
    try:
        with Proxy(tgtd.port) as proxy:
            run = Faulted(place, proxy, proxy.reset, window=3)
            show("reset", run)
            assert 1 <= run.failed <= 2 * 8, run.step["errors"]
            assert run.completed(run.intervals[-1]) > 0 and proxy.accepted >= 4, proxy.accepted
    finally:
        tgtd.kill()


def test_answers_come_later(place):
    tgtd = target(place)
    try:
        with Proxy(tgtd.port) as proxy:
            def slow():
                proxy.delay = 0.2
            run = Faulted(place, proxy, slow, window=4)
            show("200 ms later", run)
            assert run.failed == 0
            assert run.longest() >= 0.2 * SECOND
            late = run.intervals[-1]
            # Little: sixteen outstanding, 200 ms each.
            assert 30 < run.completed(late) <= 16 * 5 + 16, run.completed(late)
            assert min(k["response"]["min_ns"] for k in late["kinds"]) >= 0.2 * SECOND, late["kinds"]
    finally:
        tgtd.kill()


def test_open_loop_counts_what_waited(place):
    tgtd = target(place)
    try:
        run = Faulted(place, tgtd, stop_for(tgtd, 3), op_timeout="10s", window=7,
                      step="workload: {{read: 50%, size: 16MiB, rate: 400/s, pacing: fixed, max_outstanding: 16}}, "
                           "load: 2T1Q, measure: {{warmup: 1s, window: {window}s}}")
        show("open loop, stop 3 s", run)
        assert run.failed == 0 and run.longest() >= 2.5 * SECOND, run.longest()
        # Nearly all of what became due in the stop has waited: a fifth or more of the window's operations beyond 500 ms.
        assert run.fleet["response"]["percentiles"]["p90_ns"] > 0.5 * SECOND, run.fleet["response"]
        assert 0.95 * 7 * 400 < run.fleet["response"]["count"] <= 7 * 400 + 1, run.fleet["response"]["count"]
    finally:
        tgtd.kill()


if __name__ == "__main__":
    main(globals())
