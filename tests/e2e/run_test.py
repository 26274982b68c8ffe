"""Whole runs: figures, sums, files, exports."""
import csv
import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import termios

from harness import AGENT, MUSTER, check_run, loop_device, main, muster, near, run

FILES = """
name: files
targets:
  f: {file: {dir: "@DIR@/data"}}
initiators: {count: 3}
steps:
  - name: mix
    target: f
    workload: {block: 4KiB, pattern: random, read: 70%, size: 24MiB}
    load: 2T4Q
    precondition: {fill: 1x}
    measure: {warmup: 1s, window: 3s}
    sweep: {initiators: [1, 3]}
"""


def fleet(step, kind="all"):
    return next(k for k in step["fleet"]["kinds"] if k["kind"] == kind)


def test_three_agents_on_files(place):
    done = run(place, place.campaign(FILES), "--local", "3")
    assert done.code == 0, done
    result = done.result()
    assert result["outcome"] == "complete"
    steps = done.steps()
    assert [s["name"] for s in steps] == ["mix[initiators=1]", "mix[initiators=3]"], steps
    for step, initiators in zip(steps, (1, 3)):
        assert step["outcome"] == "VALID", step
        assert {c["name"]: c["outcome"] for c in step["checks"]} == {
            "sums": "pass", "coverage": "pass", "errors": "pass", "intervals": "pass", "operation_age": "pass", "links": "pass"}, step["checks"]
        assert len(step["initiators"]) == initiators
        every, reads, writes = fleet(step), fleet(step, "read"), fleet(step, "write")
        assert every["completed"] == reads["completed"] + writes["completed"] > 100
        assert every["bytes"] == every["completed"] * 4096
        # Pooled, never averaged: sums and counts of the kinds add up to those of all.
        assert every["response"]["count"] == reads["response"]["count"] + writes["response"]["count"] == every["completed"]
        assert every["response"]["sum_ns"] == reads["response"]["sum_ns"] + writes["response"]["sum_ns"]
        assert sum(k["completed"] for i in step["initiators"] for k in i["kinds"] if k["kind"] == "all") == every["completed"]
        assert near(reads["completed"] / every["completed"], 0.7, 0.1)
        assert near(every["iops"], every["completed"] / 3, 0.001), every
        assert step["fleet"]["asked_depth"] == initiators * 8
        assert 0 < step["fleet"]["wire_depth"] <= step["fleet"]["achieved_depth"] <= initiators * 8 + 0.001
    assert not os.path.exists(os.path.join(place.path, "data")), "own files are removed"
    assert os.listdir(os.path.dirname(result["path"])) == ["run.db"], "one file is the run"


def test_null_latency_is_what_was_programmed(place):
    done = run(place, place.campaign("""
name: cal
targets: {cal: {null: {latency: {mean: 2ms}}}}
steps:
  - name: closed
    target: cal
    workload: {size: 1GiB}
    load: 1T4Q
    measure: {warmup: 1s, window: 3s}
"""))
    assert done.code == 0, done
    response = fleet(done.steps()[0])["response"]
    assert response["min_ns"] >= 2_000_000, response
    assert near(response["percentiles"]["p50_ns"], 2_000_000, 0.5), response
    # Little: depth = rate x response.
    every = fleet(done.steps()[0])
    assert near(every["iops"] * every["response"]["mean_ns"] / 1e9, 4, 0.1), every


def test_open_loop_keeps_its_rate_and_shows_a_stall(place):
    done = run(place, place.campaign("""
name: open
targets:
  calm: {null: {latency: {mean: 200us}}}
  stall: {null: {latency: {mean: 200us}, stalls: [{at: 3s, for: 1s}]}}
steps:
  - name: calm
    target: calm
    workload: {size: 1GiB, rate: 2k/s, pacing: poisson}
    measure: {warmup: 1s, window: 4s}
  - name: stalled
    target: stall
    workload: {size: 1GiB, rate: 2k/s, pacing: fixed, max_outstanding: 4}
    measure: {warmup: 1s, window: 5s}
"""))
    assert done.code == 0, done
    calm, stalled = done.steps()
    assert near(fleet(calm)["iops"], 2000, 0.1), fleet(calm)
    # Of 5 s of arrivals one second's waited up to a second: a tenth of all waited longer than half a second. A
    # generator with coordinated omission would have four slow operations.
    response = fleet(stalled)["response"]
    assert response["percentiles"]["p95_ns"] > 400_000_000, response
    assert response["max_ns"] >= 900_000_000, response
    wait = fleet(stalled)["wait"]
    assert wait["percentiles"]["p95_ns"] > 400_000_000, wait
    assert near(response["count"], 10_000, 0.02), response


def test_overload_ends_the_step(place):
    done = run(place, place.campaign("""
name: over
targets: {slow: {null: {latency: {mean: 10ms}}}}
steps:
  - name: over
    target: slow
    workload: {size: 1GiB, rate: 10k/s, pacing: fixed, max_outstanding: 4, overload_after: 1s}
    measure: {warmup: 1s, window: 60s}
"""), timeout=60)
    assert done.code == 1, done
    step = done.steps()[0]
    assert step["outcome"] == "OVERLOADED", step
    assert done.seconds < 30


def test_errors_make_the_step_invalid(place):
    done = run(place, place.campaign("""
name: err
targets: {bad: {null: {latency: {mean: 1ms}, errors: 1%}}}
steps:
  - name: bad
    target: bad
    workload: {size: 1GiB}
    load: 1T16Q
    measure: {warmup: 1s, window: 2s}
"""))
    assert done.code == 1, done
    step = done.steps()[0]
    assert step["outcome"] == "INVALID"
    plain = muster("run", os.path.join(place.path, "campaign.yaml"), "--runs", place.runs)
    counts = [int(line.split(" failed so far")[0].split()[-1]) for line in plain.err.splitlines() if "failed so far" in line]
    assert counts and counts == sorted(counts), plain.err
    assert len(counts) == sum(": interval " in line for line in plain.err.splitlines()), plain.err
    check = next(c for c in step["checks"] if c["name"] == "errors")
    assert check["outcome"] == "fail", check
    assert sum(e["count"] for e in step["errors"]) > 0
    assert step["errors"][0]["class"] == "io", step["errors"]


def test_partition_flush_and_trim(place):
    done = run(place, place.campaign("""
name: kinds
targets: {f: {file: {dir: "@DIR@/data", files: per_initiator, direct: false}}}
initiators: {count: 2}
steps:
  - name: all
    target: f
    workload: {block: 8KiB, pattern: sequential, read: 40%, trim: 10%, flush_every: 8, size_per_initiator: 8MiB}
    load: 2T2Q
    measure: {warmup: 1s, window: 2s}
"""), "--local", "2")
    assert done.code == 0, done
    step = done.steps()[0]
    counts = {k["kind"]: k["completed"] for k in step["fleet"]["kinds"]}
    assert set(counts) == {"all", "read", "write", "flush", "trim"}, counts
    assert near(counts["write"] / counts["flush"], 8, 0.1), counts
    assert near(counts["trim"] / (counts["trim"] + counts["read"] + counts["write"]), 0.1, 0.3), counts


def test_block_device(place):
    with loop_device(place) as (device, _):
        campaign = place.campaign(f"""
name: block
targets: {{d: {{block: {{device: {device}}}}}}}
initiators: {{count: 2}}
steps:
  - name: rw
    target: d
    workload: {{block: 4KiB, read: 50%, size: 64MiB, layout: partition}}
    load: 1T8Q
    precondition: {{fill: 1x}}
    measure: {{warmup: 1s, window: 2s}}
""")
        plan = muster("plan", campaign)
        assert plan.code == 0 and device in plan.out and "blank" in plan.out, plan
        done = run(place, campaign, "--local", "2")
        assert done.code == 0, done
        assert done.steps()[0]["outcome"] == "VALID"
        # Labelled now: ours, so the same campaign runs again.
        again = muster("plan", campaign)
        assert again.code == 0 and "label" in again.out, again


def test_exports_and_results(place):
    done = run(place, place.campaign(FILES), "--local", "2")
    assert done.code == 0, done
    run_id = done.result()["id"]
    results = ("results", "--runs", place.runs)
    listed = muster(*results, "list")
    assert run_id in listed.out and listed.code == 0, listed
    shown = muster(*results, "show", run_id[:18])
    assert shown.code == 0 and "mix[initiators=3]" in shown.out and "sums" in shown.out, shown
    exported = muster(*results, "export", "last", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(exported.out)))
    of_fleet = [r for r in rows if r["group"] == "fleet" and r["kind"] == "all"]
    assert [int(r["completed"]) for r in of_fleet] == [fleet(s)["completed"] for s in done.steps()], of_fleet
    hlog = muster(*results, "export", "last", "--format", "hlog")
    assert hlog.out.startswith("#") and "HIST" in hlog.out, hlog.out[:300]
    target = os.path.join(place.path, "out.json")
    assert muster(*results, "export", "last", "--format", "json", "-o", target).code == 0
    whole = muster(*results, "export", "last", "--format", "json", "--histograms")
    little, everything = json.load(open(target, encoding="utf-8")), json.loads(whole.out)
    assert os.path.getsize(target) * 3 < len(whole.out), (os.path.getsize(target), len(whole.out))
    for step, full in zip(little["steps"], everything["steps"]):
        assert len(step["intervals"]) == len(full["intervals"]) > 0
        response = fleet(step)["response"]
        assert response["histogram"].startswith("HISTFAAA") and "counters" not in response, response
        assert {**fleet(full)["response"], "counters": 0} == {**{k: v for k, v in response.items() if k != "histogram"}, "counters": 0}
        assert "counters" in full["intervals"][0]["kinds"][0]["response"]
        assert "histogram" not in step["intervals"][0]["kinds"][0]["response"]
    assert "CONTRADICTION" in muster(*results, "export", "last", "--format", "csv", "--histograms").err
    copy = os.path.join(place.path, "copied.db")
    check_run("cp", done.result()["path"], copy)
    assert muster("results", "show", copy).code == 0, "a copied file is the run"
    missing = muster(*results, "show", "20000101")
    assert missing.code == 2 and "RUN_UNKNOWN" in missing.err, missing


def test_plain_output_for_people(place):
    done = muster("run", place.campaign(FILES), "--runs", place.runs)
    assert done.code == 0, done
    assert "mix[initiators=3]" in done.out and "VALID" in done.out, done
    assert "measure" in done.err and "fill" in done.err, done
    assert "\x1b[" not in done.out + done.err, "no control sequences in a pipe"


def test_completion_and_help(place):
    for shell in ("bash", "zsh", "fish"):
        assert muster("completion", shell).code == 0
    script = place.file("c.bash", muster("completion", "bash").out)
    words = check_run("bash", "-c", f"PATH=$PATH:{os.path.dirname(MUSTER)}; source {script}; COMP_WORDS=(muster results ''); COMP_CWORD=2; _muster; echo ${{COMPREPLY[*]}}")
    assert {"list", "show", "export"} <= set(words.split()), words
    assert "flush_every" in muster("help", "campaign").out
    assert muster("--help").code == 0
    assert muster("version", "--json").events()[0]["api_min"] == 3


def test_wrong_usage_is_a_typed_error(place):
    for words, code, hint in ((("nonsense",), "UNKNOWN_COMMAND", "run, serve"), (("rnu",), "UNKNOWN_COMMAND", '"run"'),
                              (("results", "shwo"), "UNKNOWN_COMMAND", '"show"'), ((), "MISSING_COMMAND", "results"),
                              (("run", "--locla", "3", "x.yaml"), "UNKNOWN_OPTION", "--local"),
                              (("run",), "MISSING_ARGUMENT", "campaign"), (("run", "a", "--local", "99"), "USAGE", "--local")):
        done = muster(*words)
        assert done.code == 2 and f"[{code}]" in done.err and hint in done.err and not done.out, (words, done)
        assert done.err.startswith("muster: ") and len(done.err.splitlines()) == 1, done
    told = muster("run", "--json", "--locla").events()
    assert [e["error"]["code"] for e in told] == ["UNKNOWN_OPTION"], told
    wrong = subprocess.run([AGENT, "--controler", "unix:/x"], capture_output=True, text=True, timeout=30)
    assert wrong.returncode == 2 and "UNKNOWN_OPTION" in wrong.stderr and "--controller" in wrong.stderr, wrong


def test_version_is_told_in_both_ways_by_both_programs(place):
    version = muster("version")
    assert version.code == 0 and version.out.startswith("muster ") and muster("--version").out == version.out, version
    agent = subprocess.run([AGENT, "--version"], capture_output=True, text=True, timeout=30)
    assert agent.returncode == 0 and agent.stdout == version.out.replace("muster ", "muster-agent "), agent


def test_help_takes_the_width_of_the_terminal(place):
    def lines_at(width):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        process = subprocess.Popen([MUSTER, "help", "campaign"], stdout=theirs)
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # EIO: the other end is closed
                piece = b""
            if not piece:
                break
            text += piece
        os.close(ours)
        assert process.wait(30) == 0
        return text.decode().splitlines()
    widest = [max(len(line) for line in lines_at(width) if line.strip().count(" ")) for width in (20, 80, 110, 400)]
    piped = max(len(line) for line in muster("help", "campaign").out.splitlines())
    assert 45 < widest[0] <= 60 < widest[1] <= 80 < widest[2] <= 110 < widest[3] <= 120 and 80 < piped <= 100, (widest, piped)


def test_a_runs_directory_that_is_not_there_is_said(place):
    absent = os.path.join(place.path, "absent")
    for verb in (("list",), ("list", "--json"), ("show", "last"), ("export", "last")):
        done = muster("results", "--runs", absent, *verb)
        assert done.code == 2 and "RUNS_DIR_MISSING" in done.err and absent in done.err, (verb, done)
    os.mkdir(absent)
    assert muster("results", "--runs", absent, "list").code == 0
    fresh = {**os.environ, "XDG_DATA_HOME": os.path.join(place.path, "fresh")}
    assert muster("results", "list", env=fresh).code == 0, "before the first run there are none"
    assert "RUN_UNKNOWN" in muster("results", "show", env=fresh).err


def test_a_plan_says_what_buffers_it_needs_and_a_run_that_cannot_have_them_is_not_begun(place):
    text = """
name: wide
targets: {t: {null: {}}}
initiators: {count: 2}
steps: [{name: one, target: t, workload: {size: 1TiB, block: %s}, load: %s, measure: {warmup: 1s, window: 1s}}]
"""
    small = place.campaign(text % ("64KiB", "4T4Q"))
    planned = muster("plan", "--no-inspect", small)
    assert planned.code == 0 and "buffers" in planned.out and " 2MiB " in planned.out and "BUFFER_MEMORY" not in planned.out, planned
    assert muster("plan", "--no-inspect", "--json", small).events()[0]["steps"][0]["buffer_bytes"] == 2 << 20
    large = place.campaign(text % ("64MiB", "64T1024Q"))
    planned = muster("plan", "--no-inspect", large)
    assert planned.code == 0 and "warning: step one" in planned.out and "BUFFER_MEMORY" in planned.out, planned
    done = muster("run", large, "--runs", place.runs)
    assert done.code == 2 and "BUFFER_MEMORY" in done.err and not os.path.exists(place.runs), done


if __name__ == "__main__":
    main(globals())
