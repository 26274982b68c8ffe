"""Clocks that differ: agents in time namespaces, and ways to and from the controller that take different times."""
import os
import re
import shutil
import subprocess

from delay_proxy import DelayProxy
from harness import Skip, finish, main, need_root, read_events, wait_for
from link_test import check
from serving import serving

CAMPAIGN = """
name: clocks
targets: {cal: {null: {latency: {mean: 1ms}}}}
initiators: {count: %d}
interval: %s
steps:
  - name: one
    target: cal
    workload: {size: 1GiB}
    load: 1T2Q
    measure: {warmup: %s, window: %s}
"""
MS = 1_000_000
SECOND = 1_000_000_000
DISAGREE = ("clock offsets", "runs on the controller's host, but its clock")


def shifted(seconds):
    """What a command is put behind to run with CLOCK_MONOTONIC and CLOCK_BOOTTIME so far from those of this host."""
    need_root()
    if not shutil.which("unshare"):
        raise Skip("needs unshare (util-linux)")
    prefix = ("unshare", "--time", "--monotonic", str(seconds), "--boottime", str(seconds))
    tried = subprocess.run([*prefix, "cat", "/proc/self/timens_offsets"], capture_output=True, text=True)
    if tried.returncode != 0 or not re.search(rf"monotonic\s+{seconds}\s", tried.stdout):
        raise Skip(f"no time namespaces here: {tried.stdout} {tried.stderr}")
    return prefix


def clocks(it, *names):
    """Offsets and errors once each has been measured well: the first Beats may have had to wait for a processor."""
    def known():
        there = it.there()
        return there if all(0 < (there[n]["clock_error_ns"] or 0) < 100 * MS for n in names) else None
    return {n: (a["clock_offset_ns"], a["clock_error_ns"]) for n, a in wait_for(known, 30, "clocks that have been measured").items()}


def run(it, *numbers):
    done = it.ask("run", it.place.campaign(CAMPAIGN % numbers), "--json")
    return done, done.result(), done.steps()[0]


def test_agents_in_time_namespaces_start_together(place):
    ahead, behind = shifted(1000), shifted(-500)
    with serving(place) as it:
        it.agent("a1")
        it.agent("a2", prefix=ahead)
        it.agent("a3", prefix=behind)
        it.agent("a4", prefix=ahead)  # one boot id, yet another namespace than a2's
        it.wait_for_agents("a1", "a2", "a3", "a4")
        for name, (offset, error) in clocks(it, "a1", "a2", "a3", "a4").items():
            # Controller minus agent.
            truth = {"a1": 0, "a2": -1000, "a3": 500, "a4": -1000}[name] * SECOND
            assert abs(offset - truth) <= error, (name, offset, error)
        done, result, step = run(it, 4, "1s", "1s", "3s")
        assert done.code == 0 and result["outcome"] == "complete" and step["outcome"] == "VALID", done
        for name in ("sums", "coverage", "intervals", "errors", "links"):
            assert check(step, name)["outcome"] == "pass", step["checks"]
        # Everybody started at one instant, as they say themselves, within what the clocks may be wrong.
        assert step["start_skew_ns"] < 500 * MS and 0 < step["clock_error_ns"] < 100 * MS, step
        assert 0 < step["edge_error_ns"] < 100 * MS, step["edge_error_ns"]
        assert not any(text in it.log_text() for text in DISAGREE), it.log_text()
        assert len(step["initiators"]) == 4 and all(i["kinds"][0]["completed"] > 0 for i in step["initiators"]), step


def test_a_controller_in_a_time_namespace_has_the_same_fleet(place):
    with serving(place, prefix=shifted(2000)) as it:
        it.agent("a1")
        it.agent("a2", prefix=shifted(300))
        it.wait_for_agents("a1", "a2")
        for name, (offset, error) in clocks(it, "a1", "a2").items():
            truth = {"a1": 2000, "a2": 1700}[name] * SECOND
            assert abs(offset - truth) <= error, (name, offset, error)
        done, _, step = run(it, 2, "1s", "1s", "2s")
        assert done.code == 0 and step["outcome"] == "VALID" and check(step, "intervals")["outcome"] == "pass", done
        assert not any(text in it.log_text() for text in DISAGREE), it.log_text()


def test_ways_of_different_length_are_within_the_stated_error(place):
    out, back = 0.040, 0.005
    wrong = (out - back) / 2 * SECOND  # what no protocol of two ways can find out (RFC 5905 8)
    prefix = shifted(0)  # a namespace of its own: it shares its clock figures with nobody
    with serving(place) as it:
        front = os.path.join(place.path, "front.sock")
        with DelayProxy(front, lambda: it.address[len("unix:"):], out, back):
            it.agent("a1")
            it.agent("far", controller="unix:" + front, prefix=prefix)
            it.wait_for_agents("a1", "far")
            offset, error = clocks(it, "a1", "far")["far"]
            # The truth is 0. (t2 - t1 + t3 - t4) / 2 is out by half the difference, the error is half of the round trip.
            assert 0.8 * wrong < offset, f"offset {offset} ns: the proxy delays nothing"
            assert abs(offset) <= error, (offset, error)
            assert error >= (out + back) / 2 * SECOND, error
            done, result, step = run(it, 2, "1s", "1s", "3s")
            assert result["outcome"] == "complete" and check(step, "sums")["outcome"] == "pass", done
            # The result says how wrong its instants may be: as the true error at least.
            print(f"        true error {wrong / MS:.1f} ms, stated {step['clock_error_ns'] / MS:.1f} ms, start skew "
                  f"{step['start_skew_ns'] / MS:.3f} ms, edge error {step['edge_error_ns'] / MS:.1f} ms", flush=True)
            assert step["clock_error_ns"] >= wrong, step["clock_error_ns"]
            assert step["edge_error_ns"] >= wrong, step["edge_error_ns"]
            for name in ("coverage", "intervals", "errors", "links"):
                assert check(step, name)["outcome"] == "pass", step["checks"]
        assert not any(text in it.log_text() for text in DISAGREE), it.log_text()


LIBFAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


def test_a_wall_clock_that_is_stepped_in_mid_step_changes_nothing(place):
    """Of the agent's process alone: nobody steps the clock of a machine for a test."""
    if not os.path.exists(LIBFAKETIME):
        raise Skip("needs libfaketime (package faketime)")
    step_file = place.file("faketime", "+0")
    env = ["env", f"LD_PRELOAD={LIBFAKETIME}", f"FAKETIME_TIMESTAMP_FILE={step_file}", "FAKETIME_DONT_FAKE_MONOTONIC=1",
           "FAKETIME_NO_CACHE=1"]

    def year():
        return int(subprocess.run([*env, "date", "+%Y"], capture_output=True, text=True, check=True).stdout)
    now = year()
    with serving(place) as it:
        it.agent("a1")
        it.agent("a2", prefix=env)
        it.wait_for_agents("a1", "a2")
        process = it.begin("run", place.campaign(CAMPAIGN % (2, "1s", "1s", "8s")), "--json")
        for step in ("+400d", "-400d"):
            read_events(process, lambda e: e["event"] == "live")
            place.file("faketime", step)
            assert year() in (now + 1, now + 2, now - 1, now - 2), "libfaketime does not work here"
            read_events(process, lambda e: e["event"] == "live")
        done = finish(process, 60)
        step = done.steps()[0]
        assert done.code == 0 and step["outcome"] == "VALID", done
        for name in ("sums", "coverage", "intervals", "errors", "links"):
            assert check(step, name)["outcome"] == "pass", step["checks"]
        assert step["clock_error_ns"] < 100 * MS and step["start_skew_ns"] < 500 * MS, step
        assert not any(text in it.log_text() for text in DISAGREE), it.log_text()
        # The agent has lived with it: its log shows the time that it was told last.
        place.file("faketime", "+5h")
        hours = [subprocess.run([*env, "date", "-u", "-d", ago, "+%H:"], capture_output=True, text=True).stdout.strip()
                 for ago in ("now", "1 hour", "1 hour ago")]
        it.kill()
        wait_for(lambda: any(line.startswith(tuple(hours)) for line in it.agent_log("a2").splitlines()), 30, "a line of a later time")
        assert not any(line.startswith(tuple(hours)) for line in it.agent_log("a1").splitlines()), it.agent_log("a1")


if __name__ == "__main__":
    main(globals())
