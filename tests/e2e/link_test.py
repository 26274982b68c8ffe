"""Links that break: what a run makes of it when they come back in time, and when they do not."""
import os
import signal
import subprocess
import time

from harness import AGENT, MUSTER, alive, children_of, finish, main, read_events, wait_for
from link_proxy import agents_through

CAMPAIGN = """
name: links
targets: {cal: {null: {latency: {mean: 1ms}}}}
initiators: {count: 2}
steps:
  - name: one
    target: cal
    workload: {size: 1GiB}
    load: 1T4Q
    measure: {warmup: 1s, window: %s}
"""


def in_measure(event):
    return event["event"] == "live" and event["interval"] >= 2


def check(step, name):
    return next(c for c in step["checks"] if c["name"] == name)


def begin(place, window, *args, program=MUSTER):
    return subprocess.Popen([program, "run", place.campaign(CAMPAIGN % window), "--runs", place.runs, "--json", "--local", "2", *args],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def agent_of(process, agent_id):
    """Process number of the local agent of that id."""
    for pid in children_of(process.pid):
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
            if agent_id in f.read().split("\0"):
                return pid
    raise AssertionError(f"no agent {agent_id}")


def test_a_link_that_is_back_within_its_lease_costs_nothing(place):
    program, proxy = agents_through(place, MUSTER, AGENT, "local-1")
    with proxy:
        process = begin(place, "8s", program=program)
        seen = read_events(process, in_measure)
        proxy.cut(1)
        done = finish(process, 60)
    assert done.code == 0, done
    result = done.result()
    assert result["outcome"] == "complete", result
    step = result["run"]["steps"][0]
    assert step["outcome"] == "VALID", step
    for name in ("sums", "coverage", "intervals"):
        assert check(step, name)["outcome"] == "pass", step["checks"]
    links = check(step, "links")
    assert links["outcome"] == "warn" and "local-1: 1 reconnects" in links["evidence"], links
    said = str(seen) + done.out
    assert "agent local-1: link down" in said and "agent local-1: back after" in said, said[-3000:]


def test_a_link_that_breaks_again_and_again_costs_nothing(place):
    program, proxy = agents_through(place, MUSTER, AGENT, "local-1")
    with proxy:
        process = begin(place, "10s", program=program)
        read_events(process, in_measure)
        for _ in range(4):
            proxy.cut(0.3)
            read_events(process, lambda e: e["event"] == "live")
            read_events(process, lambda e: e["event"] == "live")
        done = finish(process, 60)
    step = done.steps()[0]
    assert done.code == 0 and step["outcome"] == "VALID", (step, done)
    assert check(step, "links")["outcome"] == "warn", step["checks"]


def test_a_link_that_is_mute_is_dialled_anew(place):
    program, proxy = agents_through(place, MUSTER, AGENT, "local-1")
    with proxy:
        process = begin(place, "10s", "--lease", "6s", program=program)
        read_events(process, in_measure)
        proxy.mute()
        done = finish(process, 60)
    step = done.steps()[0]
    assert done.code == 0 and step["outcome"] == "VALID", (step, done)
    links = check(step, "links")
    assert links["outcome"] == "warn" and "local-1: 1 reconnects" in links["evidence"], links


def test_a_link_that_stays_away_ends_the_load_with_its_lease(place):
    program, proxy = agents_through(place, MUSTER, AGENT, "local-1")
    with proxy:
        process = begin(place, "120s", "--lease", "3s", program=program)
        read_events(process, in_measure)
        agent = agent_of(process, "local-1")
        began = time.monotonic()
        proxy.cut(600)
        # --once: it ends when its session has ended, aborted and drained. Until its lease is over it goes on.
        wait_for(lambda: not alive(agent), 20, "end of the agent that cannot reach its controller")
        assert time.monotonic() - began > 1, "the load ended with the link"
        done = finish(process, 60)
    assert done.code == 3, done
    result = done.result()
    assert result["outcome"] == "aborted" and result["error"]["code"] == "LEASE_ENDED", result["error"]
    step = result["run"]["steps"][0]
    assert step["outcome"] in ("INVALID", "FAILED") and check(step, "coverage")["outcome"] == "fail", step
    assert step["fleet"]["kinds"][0]["completed"] > 0, "what was measured is kept"


def test_an_agent_stopped_for_less_than_its_lease_leaves_a_gap(place):
    process = begin(place, "10s")
    read_events(process, in_measure)
    victim = agent_of(process, "local-1")
    os.kill(victim, signal.SIGSTOP)
    stopped = time.monotonic()
    read_events(process, lambda e: time.monotonic() - stopped > 3)
    os.kill(victim, signal.SIGCONT)
    done = finish(process, 60)
    step = done.steps()[0]
    assert done.code == 1 and done.result()["outcome"] == "complete" and step["outcome"] == "INVALID", (step, done)
    intervals = check(step, "intervals")
    assert intervals["outcome"] == "fail" and "gap" in intervals["evidence"], intervals
    assert check(step, "coverage")["outcome"] == "pass", step["checks"]


def test_a_restarted_agent_is_refused_while_the_old_lease_runs(place):
    process = begin(place, "60s", "--lease", "4s")
    read_events(process, in_measure)
    victim = agent_of(process, "local-1")
    with open(f"/proc/{victim}/cmdline", encoding="utf-8") as f:
        socket = next(a for a in f.read().split("\0") if a.startswith("unix:"))
    os.kill(victim, signal.SIGKILL)
    log = os.path.join(place.path, "second.log")
    with open(log, "w", encoding="utf-8") as stderr:
        second = subprocess.Popen([AGENT, "--controller", socket, "--id", "local-1"], stderr=stderr)
    try:
        wait_for(lambda: "AGENT_ID_TAKEN" in open(log, encoding="utf-8").read(), 20, "refusal")
        done = finish(process, 60)
    finally:
        second.terminate()
        second.wait(20)
    assert done.code == 3 and done.result()["outcome"] == "aborted", done
    assert done.result()["error"]["code"] == "LEASE_ENDED", done.result()["error"]
    host = os.uname().nodename
    assert f"in use by another process on host {host}" in open(log, encoding="utf-8").read()


if __name__ == "__main__":
    main(globals())
