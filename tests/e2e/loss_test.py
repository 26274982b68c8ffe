"""A fleet that shrinks and a controller that dies: on_agent_loss: continue, and muster run --resume."""
import json
import os
import signal
import subprocess
import time

from harness import MUSTER, finish, main, muster, read_events
from link_test import agent_of, check

CAMPAIGN = """
name: loss
targets: {cal: {null: {latency: {mean: 1ms}}}}
initiators: {count: 3}
on_agent_loss: %s
op_timeout: 1s
steps:
  - name: first
    target: cal
    workload: {size: 1GiB}
    load: 1T2Q
    measure: {warmup: 1s, window: %s}
  - name: second
    target: cal
    workload: {size: 1GiB}
    load: 1T2Q
    measure: {warmup: 1s, window: 2s}
"""


def begin(place, campaign, local="3"):
    return subprocess.Popen([MUSTER, "run", campaign, "--runs", place.runs, "--json", "--local", local, "--lease", "2s"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def measuring(step, interval=1):
    return lambda e: e["event"] == "live" and e["step"] == step and e["interval"] >= interval


def test_a_step_is_measured_anew_without_an_agent_that_was_killed(place):
    process = begin(place, place.campaign(CAMPAIGN % ("continue", "4s")))
    read_events(process, measuring(0))
    os.kill(agent_of(process, "local-2"), signal.SIGKILL)
    done = finish(process, 90)
    assert done.code == 0, done
    result = done.result()
    assert result["outcome"] == "complete", result
    first, second = result["run"]["steps"]
    for step in (first, second):
        assert step["outcome"] == "VALID", step
        for name in ("sums", "intervals", "errors"):
            assert check(step, name)["outcome"] == "pass", step["checks"]
    coverage = check(first, "coverage")
    assert coverage["outcome"] == "warn" and "local-2" in coverage["evidence"] and "3 initiators asked, 2 heard" in coverage["evidence"], coverage
    assert first["left_out_agents"] == ["local-2"] and first["window_restarts"] == 1, first
    # The next step deals all three over the two that are left.
    assert check(second, "coverage")["outcome"] == "pass" and second["left_out_agents"] == [], second


def test_a_fleets_rate_is_offered_by_those_that_are_left(place):
    campaign = (CAMPAIGN % ("continue", "6s")).replace("{size: 1GiB}", "{size: 1GiB, rate: 3k/s, pacing: fixed}").replace("1T2Q", "1T1Q")
    process = begin(place, place.campaign(campaign))
    read_events(process, measuring(0, interval=4))
    os.kill(agent_of(process, "local-2"), signal.SIGKILL)
    done = finish(process, 90)
    first = done.steps()[0]
    assert done.code == 0 and first["outcome"] == "VALID", (first, done)
    # All that was due in the window, by two agents that share what three had: a fixed rate has no scatter.
    offered = first["fleet"]["kinds"][0]["response"]["count"] / (first["window"]["window_ns"] / 1e9)
    assert abs(offered - 3000) <= 300, offered
    # What the lost one had delivered before is a row of its own.
    lost = first["lost"]
    assert [row["agent"] for row in lost] == ["local-2"] and lost[0]["attempt"] == 0, lost
    assert 1 <= lost[0]["intervals"] < 6 and lost[0]["window_ns"] == lost[0]["intervals"] * 10**9, lost
    count = lost[0]["figures"]["kinds"][0]["response"]["count"]
    assert abs(count / lost[0]["intervals"] - 1000) <= 100, lost
    text = muster("results", "show", "last", "--runs", place.runs).out
    assert "delivered in a window that was begun anew" in text, text


def test_abort_is_the_default_and_says_so(place):
    process = begin(place, place.campaign(CAMPAIGN % ("abort", "4s")))
    read_events(process, measuring(0))
    os.kill(agent_of(process, "local-2"), signal.SIGKILL)
    done = finish(process, 90)
    assert done.code == 3 and done.result()["outcome"] == "aborted", done
    assert [s["outcome"] for s in done.steps()] == ["INVALID", "SKIPPED"], done.steps()


def test_a_run_whose_controller_was_killed_goes_on_where_it_was(place):
    campaign = place.campaign(CAMPAIGN % ("abort", "3s"))
    process = begin(place, campaign, "2")
    read_events(process, lambda e: e["event"] == "live" and e["step"] == 1)
    process.kill()
    process.communicate()
    assert "interrupted" in muster("results", "--runs", place.runs, "list").out
    os.unlink(campaign)  # the run file has it
    resumed = muster("run", "--resume", "last", "--runs", place.runs, "--json", "--local", "1", "--lease", "2s")
    assert resumed.code == 0, resumed
    result = resumed.result()
    assert result["outcome"] == "complete" and [s["outcome"] for s in result["run"]["steps"]] == ["VALID", "VALID"], result
    # The first was not measured again.
    assert not [e for e in resumed.events() if e["event"] == "live" and e["step"] == 0], "first ran again"
    again = muster("run", "--resume", "last", "--runs", place.runs, "--json")
    assert again.code == 2 and "RUN_COMPLETE" in again.err, again
    events = json.loads(muster("results", "--runs", place.runs, "export", "last", "--format", "json").out)["events"]
    assert any("resumed by" in e["text"] and "1 of 2 steps" in e["text"] for e in events), events


def test_a_cancelled_run_can_be_resumed_and_one_that_runs_cannot(place):
    process = begin(place, place.campaign(CAMPAIGN % ("abort", "20s")), "1")
    read_events(process, measuring(0))
    busy = muster("run", "--resume", "last", "--runs", place.runs)
    assert busy.code == 2 and "RUN_RUNNING" in busy.err, busy
    process.send_signal(signal.SIGINT)
    assert finish(process, 60).code == 1
    began = time.monotonic()
    process = subprocess.Popen([MUSTER, "run", "--resume", "last", "--runs", place.runs, "--json", "--local", "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    read_events(process, measuring(0))
    process.send_signal(signal.SIGINT)
    done = finish(process, 60)
    assert done.code == 1 and [s["outcome"] for s in done.steps()] == ["CANCELLED", "SKIPPED"], done
    assert time.monotonic() - began < 60


def test_resume_takes_a_run_or_a_campaign_not_both(place):
    for arguments, code in ((("--resume", "last", "x.yaml"), "USAGE"), ((), "MISSING_ARGUMENT"),
                            (("--resume", "nothing-like-it", "--runs", place.path), "RUN_UNKNOWN")):
        done = muster("run", *arguments)
        assert done.code == 2 and code in done.err, (arguments, done)


if __name__ == "__main__":
    main(globals())
