"""Disks that fill up: under an agent's data, under its log, under the store of a long-running controller."""
import contextlib
import errno
import json
import os
import subprocess

from harness import check_run, finish, loop_device, main, muster, read_events, tmpfs, wait_for
from link_test import check
from serve_test import error_code
from serving import serving

NULL = """
name: idle
targets: {cal: {null: {latency: {mean: 1ms}}}}
initiators: {match: {%s}}
steps: [{name: one, target: cal, workload: {size: 1GiB}, load: 1T4Q, measure: {warmup: 1s, window: %s}}]
"""
FILE = """
name: full
targets: {cal: {null: {latency: {mean: 1ms}}}, f: {file: {dir: %s/data}}}
steps:
  - {name: before, target: cal, workload: {size: 1GiB}, measure: {warmup: 0s, window: 1s}}
  - {name: data, target: f, workload: {%s}, precondition: {%s}, load: 1T4Q, measure: {warmup: 1s, window: %s}}
"""


def somebody_else(mount):
    """Fills what is left of a file system; returns the file to be removed."""
    path = os.path.join(mount, "somebody-else")
    with open(path, "ab", buffering=0) as f:
        piece = 1 << 20
        while piece >= 512:
            try:
                if f.write(bytes(piece)) < piece:
                    piece //= 2
            except OSError as error:
                assert error.errno == errno.ENOSPC, error
                piece //= 2
    return path


@contextlib.contextmanager
def no_fallocate(place, size):
    """A small file system that cannot reserve space for a file: ext4 without extents. What is written later may not fit."""
    def make(image):
        check_run("mkfs.ext4", "-q", "-O", "^extent,^has_journal,^64bit,^metadata_csum", "-m", "0", image)
    mount = os.path.join(place.path, "small")
    os.mkdir(mount)
    with loop_device(place, size, make) as (device, _):
        check_run("mount", device, mount)
        try:
            yield mount
        finally:
            subprocess.run(["umount", mount], capture_output=True)


@contextlib.contextmanager
def one_agent(place, mount):
    with serving(place) as it:
        it.agent("a1", "--allow-root", mount)
        it.wait_for_agents("a1")
        yield it


def fit(it, mount, ballast):
    """With room again the same agent, of the same process, does the next run."""
    os.unlink(ballast)
    done = it.ask("run", it.place.campaign(FILE % (mount, "size: 32MiB, read: 50%", "fill: 1x", "1s")), "--json")
    assert done.code == 0 and [s["outcome"] for s in done.steps()] == ["VALID", "VALID"], done
    assert it.agents["a1"].poll() is None and it.there()["a1"]["state"] == "idle"
    assert os.listdir(os.path.join(mount)) in ([], ["lost+found"]), os.listdir(mount)


def test_a_disk_that_fills_up_while_it_is_filled(place):
    with no_fallocate(place, 256 << 20) as mount, one_agent(place, mount) as it:
        campaign = place.campaign(FILE % (mount, "size: 192MiB", "fill: 1x, fill_block: 4KiB", "2s"))
        process = it.begin("run", campaign, "--json")
        read_events(process, lambda e: e["event"] == "phase" and e["phase"] == "fill")
        ballast = somebody_else(mount)
        done = finish(process, 90)
        result = done.result()
        assert done.code == 3 and result["outcome"] == "failed" and result["error"]["code"] == "NO_SPACE", done
        assert "target f" in result["error"]["place"] and "a1" in json.dumps(result["error"]), result["error"]
        before, data = result["run"]["steps"]
        assert before["outcome"] == "VALID" and before["fleet"]["kinds"][0]["completed"] > 0, before
        assert data["outcome"] == "FAILED" and "NO_SPACE" in json.dumps(data), data
        fit(it, mount, ballast)


def test_a_disk_that_fills_up_while_it_is_measured(place):
    with no_fallocate(place, 256 << 20) as mount, one_agent(place, mount) as it:
        campaign = place.campaign(FILE % (mount, "size: 192MiB, read: 0%", "fill: 0x", "8s"))
        process = it.begin("run", campaign, "--json")
        read_events(process, lambda e: e["event"] == "live" and e["step"] == 1 and e["interval"] >= 1)
        ballast = somebody_else(mount)
        done = finish(process, 90)
        result = done.result()
        assert done.code == 1 and result["outcome"] == "complete", done
        data = result["run"]["steps"][1]
        failed = {e["class"]: e["count"] for e in data["errors"]}
        assert data["outcome"] == "INVALID" and set(failed) == {"no_space"} and failed["no_space"] > 0, data["errors"]
        kinds = data["fleet"]["kinds"][0]
        # The errors are those of the whole step, the figures those of the window: a write that finds the disk full may take
        # so long to fail that none does within it.
        assert kinds["failed"] <= failed["no_space"] and kinds["completed"] > 0 and kinds["response"]["count"] == kinds["completed"], kinds
        assert check(data, "errors")["outcome"] == "fail" and check(data, "sums")["outcome"] == "pass", data["checks"]
        assert check(data, "coverage")["outcome"] == check(data, "intervals")["outcome"] == "pass", data["checks"]
        fit(it, mount, ballast)


def test_files_that_are_laid_out_keep_their_space(place):
    with tmpfs(place, "256m") as mount, one_agent(place, mount) as it:
        campaign = place.campaign(FILE % (mount, "size: 64MiB, read: 0%", "fill: 0x", "4s"))
        process = it.begin("run", campaign, "--json")
        read_events(process, lambda e: e["event"] == "live" and e["step"] == 1)
        ballast = somebody_else(mount)
        done = finish(process, 90)
        assert done.code == 0 and done.steps()[1]["outcome"] == "VALID" and done.steps()[1]["errors"] == [], done
        fit(it, mount, ballast)


def test_a_log_that_cannot_be_written_costs_lines_and_nothing_else(place):
    with tmpfs(place, "1m", "logs") as mount, serving(place) as it:
        log = os.path.join(mount, "agent.log")
        it.agent("a1", prefix=["sh", "-c", f'exec "$@" 2>>{log}', "sh"])  # as systemd does: StandardError=append:
        it.wait_for_agents("a1")
        wait_for(lambda: "accepted" in open(log).read(), 10, "a line")
        ballast = somebody_else(mount)
        full = os.path.getsize(log)
        # What the agent says meanwhile has no place: that there is no controller, and that there is one.
        it.kill()
        it.start()
        it.wait_for_agents("a1")
        done = it.ask("run", place.campaign(NULL % ("", "2s")), "--json")
        assert done.code == 0 and done.steps()[0]["outcome"] == "VALID", done
        cut_short = os.path.getsize(log)  # the last page of the file has room yet
        assert it.agents["a1"].poll() is None and cut_short - full < 4096, (full, cut_short)
        os.unlink(ballast)
        it.kill()
        wait_for(lambda: os.path.getsize(log) > cut_short, 30, "further lines, with room again")
        it.start()
        it.wait_for_agents("a1")


def test_a_store_that_is_full_fails_its_runs_and_not_the_controller(place):
    with tmpfs(place, "160m") as mount:
        place.runs = os.path.join(mount, "runs")
        with serving(place) as it:
            it.agent("a1", "--label", "n=1")
            it.agent("a2", "--label", "n=2")
            it.wait_for_agents("a1", "a2")
            first = it.submit(place.file("first.yaml", NULL % ("n: 1", "600s")))
            it.measuring(first)
            watch = it.begin("watch", first, "--json")
            read_events(watch, lambda e: e["event"] == "live" and e["interval"] >= 4)  # some of the window is committed
            ballast = somebody_else(mount)
            ended = it.wait_for_run(first, lambda r: r["state"] == "ended")
            assert ended["outcome"] == "failed", ended
            done = finish(watch, 30)
            assert done.code == 3 and error_code(done) == "STORE_FULL", done
            # A run that is begun on the full disk says so, too.
            second = it.ask("run", place.file("second.yaml", NULL % ("n: 2", "1s")), "--json")
            assert second.code == 3 and "STORE_FULL" in second.out + second.err, second
            assert it.serve.poll() is None and all(a["state"] == "idle" for a in it.there().values()), it.there()
            assert "STORE_FULL" in it.log_text()
            os.unlink(ballast)
            third = it.ask("run", place.file("third.yaml", NULL % ("", "2s")), "--json")
            assert third.code == 0 and third.steps()[0]["outcome"] == "VALID", third
            # What was committed of the first is shown as what it is.
            shown = muster("results", "--runs", place.runs, "show", first, "--json")
            step, = json.loads(shown.out)["steps"]
            assert step["outcome"] == "INTERRUPTED" and step["fleet"]["kinds"][0]["completed"] > 0, step


if __name__ == "__main__":
    main(globals())
