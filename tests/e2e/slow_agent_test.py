"""Agents that hang, that are slow, and that come back as another process: what they cost a run."""
import contextlib
import os
import signal
import subprocess
import threading
import time

from delay_proxy import DelayProxy, ThinProxy
from harness import MUSTER, finish, main, read_events, wait_for
from link_test import agent_of, check
from loss_test import measuring
from serving import serving

CAMPAIGN = """
name: slow
targets: {cal: {null: {latency: {mean: 1ms}}}}
initiators: {count: %d}
interval: %s
%s
steps:
"""
STEP = "  - {name: %s, target: cal, workload: {size: 1GiB}, load: 1T4Q, measure: {warmup: %s, window: %s}}\n"
LEASE, INTERVAL = 10, 1  # defaults, in seconds


def campaign(place, steps, initiators=3, interval="1s", more=""):
    return place.campaign(CAMPAIGN % (initiators, interval, more) + "".join(STEP % step for step in steps))


def completed(group):
    return group["kinds"][0]["completed"]


def test_a_hung_agent_costs_a_step_its_lease_at_most(place):
    """fio 3.33 hung for 48.8 s in such a step, and gave no aggregate."""
    process = subprocess.Popen([MUSTER, "run", campaign(place, [("twelve", "2s", "10s")]), "--runs", place.runs, "--json", "--local", "3"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    began = time.monotonic()
    read_events(process, measuring(0, 4))
    victim = agent_of(process, "local-2")
    os.kill(victim, signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        result = read_events(process, lambda e: e["event"] == "result", 120)[-1]
        ended = time.monotonic()
        code = finish(process, 60).code
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    # Its lease, counted from its last Beat; the edge at which the others stop; to release targets, seal and store 2 s.
    bound = LEASE + INTERVAL + 2
    print(f"        a step of 12 s with an agent that hangs {stopped - began:.1f} s after the start: the result is there {ended - stopped:.1f} s "
          f"later (bound {bound} s), {ended - began:.1f} s in all", flush=True)
    assert ended - stopped <= bound, result
    # A local agent that does not end when it is told to is killed after 5 s.
    assert time.monotonic() - ended <= 5 + 5 and code == 3, code
    assert result["outcome"] == "aborted" and result["error"]["code"] == "LEASE_ENDED", result["error"]
    step = result["run"]["steps"][0]
    coverage = check(step, "coverage")
    assert step["outcome"] == "INVALID" and coverage["outcome"] == "fail" and "local-2" in coverage["evidence"], step
    rows = sorted(map(completed, step["initiators"]))
    # Four operations of 1 ms at once: about 4,000 a second. The others' rows are of the window as far as it is whole.
    assert len(rows) == 3 and rows[1] > 1000 and completed(step["fleet"]) >= sum(rows[1:]), rows
    assert "local-1" not in coverage["evidence"] and "local-3" not in coverage["evidence"], coverage


def test_a_slow_link_makes_figures_late_and_nothing_else(place):
    def through(proxy_of, rate=None):
        with serving(place) as it:
            front = os.path.join(place.path, "front.sock")
            with proxy_of(front, lambda: it.address[len("unix:"):]) as proxy:
                it.agent("a1")
                it.agent("slow", controller="unix:" + front)
                it.wait_for_agents("a1", "slow")
                before = proxy.bytes_out
                done = it.ask("run", campaign(place, [("one", "1s", "8s")], 2, "200ms"), "--json")
                sent = proxy.bytes_out - before
            os.unlink(front)
        step = done.steps()[0]
        assert done.code == 0 and step["outcome"] == "VALID", done
        for name in ("sums", "coverage", "intervals", "errors"):
            assert check(step, name)["outcome"] == "pass", step["checks"]
        assert len(step["initiators"]) == 2 and all(completed(i) > 0 for i in step["initiators"]), step
        return sent, done
    sent, _ = through(DelayProxy)
    # What takes 9 s takes 12: its last reports are 3 s late, its Beats too; half a lease is 5 s.
    rate = int(sent / 12)
    began = time.monotonic()
    _, done = through(lambda front, upstream: ThinProxy(front, upstream, rate))
    print(f"        {sent} bytes through {rate} bytes a second: {time.monotonic() - began:.1f} s", flush=True)
    live = [e for e in done.events() if e["event"] == "live"]
    behind = max(max(a["interval"] for a in e["agents"]) - min(a["interval"] for a in e["agents"]) for e in live)
    assert behind >= 2, f"the slow agent was {behind} intervals behind: nothing was slow"


def test_an_agent_that_hardly_gets_a_processor_is_heard_all_the_same(place):
    process = subprocess.Popen([MUSTER, "run", campaign(place, [("one", "1s", "6s")], 2), "--runs", place.runs, "--json", "--local", "2"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    read_events(process, measuring(0, 0))
    victim = agent_of(process, "local-2")
    over = threading.Event()

    def starve():
        # A tenth of a processor, in slices of 20 ms.
        try:
            while not over.is_set():
                os.kill(victim, signal.SIGSTOP)
                over.wait(0.18)
                os.kill(victim, signal.SIGCONT)
                over.wait(0.02)
        except ProcessLookupError:
            pass  # the run has ended
    thread = threading.Thread(target=starve)
    thread.start()
    try:
        done = finish(process, 60)
    finally:
        over.set()
        thread.join()
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGCONT)
    step = done.steps()[0]
    assert done.result()["outcome"] == "complete", done
    for name in ("sums", "coverage", "intervals", "errors"):
        assert check(step, name)["outcome"] == "pass", step["checks"]
    fast, slow = (completed(next(i for i in step["initiators"] if i["agent"] == name)) for name in ("local-1", "local-2"))
    assert 0 < slow < fast / 2, (slow, fast)


def test_an_agent_that_is_restarted_joins_when_the_old_lease_has_ended(place):
    with serving(place, "--lease", "3s") as it:
        for name in ("a1", "a2", "a3"):
            it.agent(name)
        it.wait_for_agents("a1", "a2", "a3")
        text = campaign(place, [("first", "1s", "4s"), ("second", "1s", "2s")], 3, more="on_agent_loss: continue\nop_timeout: 1s")
        process = it.begin("run", text, "--json")
        read_events(process, measuring(0))
        it.agents["a2"].kill()
        it.agents["a2"].wait()
        killed = time.monotonic()
        it.agent("a2")
        wait_for(lambda: "AGENT_ID_TAKEN" in it.agent_log("a2"), 20, "refusal while the old lease runs")
        assert time.monotonic() - killed < 3 + 2
        # It tries again by itself.
        wait_for(lambda: "accepted by the controller" in it.agent_log("a2"), 3 + 20, "the new process in the fleet")
        print(f"        in the fleet {time.monotonic() - killed:.1f} s after the old one was killed", flush=True)
        done = finish(process, 90)
        first, second = done.steps()
        assert done.code == 0 and done.result()["outcome"] == "complete", done
        assert first["outcome"] == second["outcome"] == "VALID" and first["left_out_agents"] == ["a2"], (first, second)
        for step in (first, second):
            assert check(step, "sums")["outcome"] == check(step, "intervals")["outcome"] == "pass", step["checks"]
        assert "a2" in check(first, "coverage")["evidence"], first["checks"]
        again = it.ask("run", campaign(place, [("again", "1s", "2s")]), "--json")
        assert again.code == 0 and check(again.steps()[0], "coverage")["outcome"] == "pass", again
        assert {i["agent"] for i in again.steps()[0]["initiators"]} == {"a1", "a2", "a3"}, again.steps()[0]


if __name__ == "__main__":
    main(globals())
