"""A long-running controller that dies in mid-step: what its agents still hold is in the run's file when it has been started again."""
import json
import os
import shutil

from harness import main, muster, wait_for
from serving import serving

CAMPAIGN = """
name: over
op_timeout: 2s
interval: 500ms
targets: {cal: {null: {latency: {mean: 2ms}}}}
initiators: {count: 3}
steps:
  - name: one
    target: cal
    workload: {size: 1GiB, read: 70%%}
    load: 1T4Q
    measure: {warmup: 1s, window: %s}
"""


def exported(path):
    done = muster("results", "export", path, "--format", "json")
    assert done.code == 0, done
    return json.loads(done.out)


def newest(step):
    """Newest interval of the step, of the whole phase."""
    return max((i["interval"] for i in step["intervals"]), default=-1)


def cut_off(place, it, names):
    """A run in mid-step, its controller killed; the run, and a copy of its file from right after that."""
    run = it.submit(place.file("over.yaml", CAMPAIGN % "60s"), "--agents", str(len(names)))
    it.measuring(run)
    file = os.path.join(place.runs, run, "run.db")
    wait_for(lambda: it.runs()[run]["iops"] > 0 and os.path.getsize(file) > 0, 30, "intervals")
    it.kill()
    copy = os.path.join(place.path, "copy", run)
    shutil.copytree(os.path.join(place.runs, run), copy)
    return run, os.path.join(copy, "run.db")


def ended(place, run):
    def look():
        done = muster("results", "list", "--runs", place.runs, "--json")
        listed = {r["id"]: r for r in json.loads(done.out)["runs"]}
        return listed[run] if listed[run]["finished_wall_micros"] else None
    return wait_for(look, 60, "end of the interrupted run")


def check_sums(step):
    sums = next(c for c in step["checks"] if c["name"] == "sums")
    for kind in range(len(step["fleet"]["kinds"])):
        for field in ("completed", "bytes"):
            rows = [g["kinds"][kind][field] for g in step["initiators"]]
            assert step["fleet"]["kinds"][kind][field] == sum(rows), step
    return sums


def test_reports_are_handed_over_to_the_controller_that_comes_after(place):
    names = ("a1", "a2", "a3")
    with serving(place) as it:
        for name in names:
            it.agent(name)
        it.wait_for_agents(*names)
        run, copy = cut_off(place, it, names)
        (before,) = exported(copy)["steps"]
        assert before["outcome"] == "INTERRUPTED" and "not checked against totals" in before["message"], before
        it.start()
        summary = ended(place, run)
        assert summary["outcome"] == "interrupted", summary
        assert "all that they held: a1, a2, a3" in summary["message"], summary
        (after,) = exported(os.path.join(place.runs, run))["steps"]
        # Their load went on until they heard of the new controller: more than had been committed, and checked.
        assert after["outcome"] == "INTERRUPTED" and "not checked" not in after["message"], after
        assert newest(after) >= newest(before) and after["window"]["intervals"] >= before["window"]["intervals"], (before, after)
        assert check_sums(after)["outcome"] == "pass", after["checks"]
        old = {i["interval"]: i for i in before["intervals"]}
        new = {i["interval"]: i for i in after["intervals"]}
        assert all(new[k] == old[k] for k in old), "an interval that was committed has changed"
        log = it.log_text()
        for name in names:
            assert f"run={run} agent={name} has handed over" in log, log[-3000:]
        # The agents are idle, and good for the next one.
        wait_for(lambda: all(a["state"] == "idle" for a in it.there().values()) and len(it.there()) == 3, 30, "idle agents")
        again = it.ask("run", place.file("again.yaml", CAMPAIGN % "2s"), "--agents", "3", "--json")
        assert again.code == 0 and again.steps()[0]["outcome"] == "VALID", again


def test_an_agent_that_died_with_the_controller_is_told_and_holds_nobody_up(place):
    names = ("a1", "a2", "a3")
    with serving(place, "--lease", "3s") as it:
        for name in names:
            it.agent(name)
        it.wait_for_agents(*names)
        run, copy = cut_off(place, it, names)
        it.agents["a2"].kill()
        it.agents["a2"].wait()
        it.agent("a2")
        it.start("--lease", "3s")
        summary = ended(place, run)
        assert summary["outcome"] == "interrupted", summary
        assert "all that they held: a1, a3; not, or not all: a2" in summary["message"], summary
        (before,) = exported(copy)["steps"]
        (after,) = exported(os.path.join(place.runs, run))["steps"]
        # Figures need all three: those that a2 had committed, as before. Nothing is made up, nothing is lost.
        assert after["outcome"] == "INTERRUPTED" and "not checked against totals" in after["message"], after
        assert after["window"]["intervals"] >= before["window"]["intervals"], (before, after)
        check_sums(after)
        again = it.ask("run", place.file("again.yaml", CAMPAIGN % "2s"), "--agents", "3", "--json")
        assert again.code == 0 and again.steps()[0]["outcome"] == "VALID", again


def test_agents_that_never_come_back_leave_the_run_as_it_was(place):
    with serving(place, "--lease", "2s") as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        run, _ = cut_off(place, it, ("a1",))
        it.agents["a1"].kill()
        it.agents["a1"].wait()
        it.start("--lease", "2s")
        it.agent("b1")
        it.wait_for_agents("b1")
        done = it.ask("run", place.file("again.yaml", (CAMPAIGN % "2s").replace("count: 3", "count: 1")), "--json")
        assert done.code == 0 and done.steps()[0]["outcome"] == "VALID", done
        listed = {r["id"]: r for r in json.loads(muster("results", "list", "--runs", place.runs, "--json").out)["runs"]}
        assert listed[run]["outcome"] == "interrupted", listed[run]


if __name__ == "__main__":
    main(globals())
