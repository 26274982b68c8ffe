"""What goes wrong: bad input, killed processes, full disks, devices that must not be touched."""
import os
import shutil
import signal
import subprocess
import time

from harness import (AGENT, MUSTER, alive, check_run, children_of, file_hash, finish, loop_device, main, muster, read_events,
                     run, start, tmpfs, wait_for)

NULL = """
name: calibrate
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


def begin(place, text, *args):
    campaign = place.campaign(text)
    return start("run", campaign, "--runs", place.runs, "--json", *args)


def test_bad_campaigns_name_the_place(place):
    good = NULL % "2s"
    cases = {
        "UNKNOWN_KEY": (good.replace("load: 1T4Q", "laod: 1T4Q"), ":9:5:", "load"),
        "UNIT_SYNTAX": (good.replace("size: 1GiB", "size: 1 gig"), ":8:", ""),
        "YAML_DUPLICATE_KEY": (good.replace("load: 1T4Q", "load: 1T4Q\n    load: 1T8Q"), ":10:5:", ""),
        "CONTRADICTION": (good.replace("size: 1GiB", "size: 1GiB, size_per_initiator: 1GiB"), ":8:", ""),
        "UNKNOWN_TARGET": (good.replace("target: cal", "target: cla"), ":7:", "cal"),
        "MISSING_KEY": (good.replace("    target: cal\n", ""), ":", "target"),
        "YAML_SYNTAX": (good + "  - [", ":", ""),
    }
    for code, (text, position, hint) in cases.items():
        path = place.campaign(text)
        for verb in ("run", "plan"):
            done = muster(verb, path, *(["--runs", place.runs] if verb == "run" else []))
            assert done.code == 2, (code, done)
            assert code in done.err and path + position in done.err and hint in done.err, (code, done.err)
    assert not os.path.exists(place.runs), "nothing written"
    missing = muster("run", os.path.join(place.path, "absent.yaml"))
    assert missing.code == 2 and "CAMPAIGN_UNREADABLE" in missing.err, missing


def test_interrupt_keeps_what_was_measured(place):
    process = begin(place, NULL % "60s", "--local", "2")
    read_events(process, in_measure)
    agents = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    done = finish(process, 30)
    assert done.code == 1, done
    result = done.result()
    assert result["outcome"] == "cancelled", result
    step = result["run"]["steps"][0]
    assert step["outcome"] == "CANCELLED", step
    assert step["fleet"]["kinds"][0]["completed"] > 0
    assert next(c for c in step["checks"] if c["name"] == "sums")["outcome"] == "pass", step["checks"]
    assert len(agents) == 2 and not any(alive(p) for p in agents)


def test_second_interrupt_stops_at_once(place):
    process = begin(place, NULL % "60s")
    read_events(process, in_measure)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    done = finish(process, 20)
    assert done.result()["outcome"] == "cancelled", done


def test_killed_agent_ends_the_run_with_what_was_measured(place):
    process = begin(place, NULL % "60s", "--local", "2")
    read_events(process, in_measure)
    victim = children_of(process.pid)[0]
    os.kill(victim, signal.SIGKILL)
    done = finish(process, 60)
    assert done.code == 3, done
    result = done.result()
    assert result["outcome"] == "aborted" and "local-" in result["error"]["place"] + result["error"]["message"], result["error"]
    step = result["run"]["steps"][0]
    assert step["outcome"] in ("INVALID", "FAILED"), step
    assert next(c for c in step["checks"] if c["name"] == "coverage")["outcome"] == "fail", step["checks"]


def test_stopped_agent_is_lost_when_its_lease_ends(place):
    process = begin(place, NULL % "120s", "--local", "2", "--lease", "3s")
    read_events(process, in_measure)
    victim = children_of(process.pid)[0]
    os.kill(victim, signal.SIGSTOP)
    began = time.monotonic()
    done = finish(process, 90)
    assert done.code == 3 and done.result()["outcome"] == "aborted", done
    assert time.monotonic() - began < 60
    wait_for(lambda: not alive(victim), 20, "end of the stopped agent")


def test_killed_controller_stops_the_load(place):
    process = begin(place, NULL % "120s", "--local", "2")
    read_events(process, in_measure)
    agents = children_of(process.pid)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(alive(p) for p in agents), 30, "end of the agents")


def test_fill_on_a_full_disk(place):
    with tmpfs(place, "24m") as mount:
        campaign = place.campaign(f"""
name: full
targets: {{f: {{file: {{dir: {mount}/data, direct: false}}}}}}
steps:
  - name: big
    target: f
    workload: {{size: 512MiB}}
    measure: {{warmup: 1s, window: 2s}}
""")
        done = run(place, campaign, timeout=60)
        assert done.code == 3, done
        assert "NO_SPACE" in done.result()["error"]["code"], done.result()["error"]
        assert os.listdir(mount) == [], "nothing is left behind"


def block_campaign(place, device, extra=""):
    return place.campaign(f"""
name: guard
targets: {{d: {{block: {{device: {device}{extra}}}}}}}
steps:
  - name: rw
    target: d
    workload: {{read: 50%, size: 32MiB}}
    measure: {{warmup: 1s, window: 1s}}
""")


def test_device_with_a_file_system_is_never_touched(place):
    with loop_device(place, prepare=lambda image: check_run("mkfs.ext4", "-q", image)) as (device, image):
        before = file_hash(image)
        for extra in ("", ", overwrite: {id: nonsense, size: 256MiB}", f", overwrite: {{id: {image}, size: 255MiB}}"):
            campaign = block_campaign(place, device, extra)
            planned = muster("plan", campaign)
            assert planned.code == 1 and "REFUSED" in planned.out, planned
            assert f"{campaign}:3:11 target d, agent local-1 on " in planned.out, planned
            done = run(place, campaign)
            assert done.code == 3 and "TARGET_" in done.result()["error"]["code"], done
            assert done.result()["error"]["place"].startswith(f"{campaign}:3:11 target d, agent local-1 on "), done
            assert device in done.result()["error"]["place"] + done.result()["error"]["message"]
        assert file_hash(image) == before, "a refused device was written"
        allowed = block_campaign(place, device, f", overwrite: {{id: {image}, size: 256MiB}}")
        assert muster("plan", allowed).code == 0
        assert file_hash(image) == before, "plan wrote"
        assert run(place, allowed).code == 0


def test_mounted_device_is_never_touched(place):
    with loop_device(place, prepare=lambda image: check_run("mkfs.ext4", "-q", image)) as (device, image):
        mount = os.path.join(place.path, "mnt")
        os.mkdir(mount)
        check_run("mount", "-o", "ro", device, mount)
        try:
            before = file_hash(image)
            done = run(place, block_campaign(place, device, f", overwrite: {{id: {image}, size: 256MiB}}"))
            assert done.code == 3 and done.result()["error"]["code"] == "TARGET_MOUNTED", done
            assert file_hash(image) == before
        finally:
            check_run("umount", mount)


def test_an_image_that_is_mounted_is_not_touched_through_another_loop_device(place):
    with loop_device(place, prepare=lambda image: check_run("mkfs.ext4", "-q", image)) as (device, image):
        mount = os.path.join(place.path, "mnt")
        os.mkdir(mount)
        check_run("mount", "-o", "ro", device, mount)
        second = check_run("losetup", "--find", "--show", image)
        try:
            before = file_hash(image)
            done = run(place, block_campaign(place, second, f", overwrite: {{id: {image}, size: 256MiB}}"))
            assert done.code == 3 and done.result()["error"]["code"] == "TARGET_HELD", done
            assert f"is behind {device} too" in done.result()["error"]["message"], done
            assert file_hash(image) == before
        finally:
            check_run("losetup", "-d", second)
            check_run("umount", mount)


def test_unreadable_path(place):
    campaign = place.campaign("""
name: nowhere
targets: {f: {file: {dir: "@DIR@/missing/deeper/data"}}}
steps:
  - name: one
    target: f
    workload: {size: 1MiB}
    measure: {warmup: 1s, window: 1s}
""")
    done = run(place, campaign)
    assert done.code == 3 and "missing" in done.result()["error"]["place"] + done.result()["error"]["message"], done
    assert not os.path.exists(os.path.join(place.path, "missing"))


def socket_of(process):
    """Where the agents of a running controller dial."""
    return next(arg for pid in children_of(process.pid) for arg in open(f"/proc/{pid}/cmdline").read().split("\0")
                if arg.startswith("unix:"))


def refusal_of(place, *args):
    """Starts an agent that will be refused; it stays up and tries again later, so its log says why."""
    log = os.path.join(place.path, "stranger.log")
    with open(log, "w", encoding="utf-8") as stderr:
        agent = subprocess.Popen([AGENT, *args, "--once"], stderr=stderr)
    try:
        return wait_for(lambda: "refused" in open(log).read() and open(log).read(), 30, "refusal")
    finally:
        agent.terminate()
        agent.wait(20)


def test_agent_of_another_api_version_is_refused_with_both_ranges(place):
    # The controller's own agents are there and go on; a further one of another version dials the same socket.
    process = begin(place, NULL % "8s", "--local", "2")
    read_events(process, in_measure)
    said = refusal_of(place, "--controller", socket_of(process), "--id", "stranger", "--test-api", "7-9")
    assert "API_VERSION" in said and "7" in said and "9" in said and "3..3" in said, said
    assert finish(process, 60).code == 0


def test_agent_with_an_id_in_use_is_refused(place):
    process = begin(place, NULL % "8s", "--local", "2")
    read_events(process, in_measure)
    said = refusal_of(place, "--controller", socket_of(process), "--id", "local-1")
    assert "local-1" in said, said
    assert finish(process, 60).code == 0


QUICK = NULL % "1s"


def test_lost_output_never_ends_a_run(place):
    campaign = place.campaign(QUICK)
    for redirect, expected in ((">/dev/full", 3), ("2>/dev/full", 0), (">&- 2>&-", 3), ("--json | head -n 1", 0)):
        pipe = redirect.startswith("--json")
        words = [MUSTER, "run", campaign, "--runs", place.runs] + (["--json"] if pipe else [])
        command = f'"$@" {redirect.removeprefix("--json ")}'
        done = subprocess.run(["bash", "-c", command, "bash", *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == expected, (redirect, done)
    listed = muster("results", "--runs", place.runs, "list")
    assert listed.out.count("complete") == 4, listed
    for verb in (("plan", campaign), ("results", "--runs", place.runs, "list"), ("results", "--runs", place.runs, "show", "--json"),
                 ("help", "campaign")):
        done = subprocess.run(["bash", "-c", '"$@" >/dev/full', "bash", MUSTER, *verb], capture_output=True, text=True, timeout=60)
        assert done.returncode == 3 and "OUTPUT_FAILED" in done.stderr, (verb, done)


def test_a_reader_that_closes_early_is_no_error(place):
    campaign = place.campaign(QUICK)
    assert run(place, campaign).code == 0

    def closed(*words):
        """Runs with a stdout that nobody reads any more."""
        read, write = os.pipe()
        os.close(read)
        try:
            return subprocess.run([MUSTER, *words], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
        finally:
            os.close(write)

    results = ("results", "--runs", place.runs)
    for words in ((*results, "show"), (*results, "list"), (*results, "export", "--format", "json"), (*results, "show", "--json"),
                  (*results, "export", "--format", "csv"), ("plan", "--no-inspect", campaign), ("help", "campaign"), ("version",),
                  ("--help",), ("run", "--help"), ("--version",), ("completion", "bash")):
        done = closed(*words)
        assert done.returncode == 0 and done.stderr == "", (words, done)
    failing = closed(*results, "show", "20000101")
    assert failing.returncode == 2 and "RUN_UNKNOWN" in failing.stderr, failing
    # The result of a run decides, and that its text was lost is told.
    done = closed("run", campaign, "--runs", place.runs)
    assert done.returncode == 0 and "OUTPUT_FAILED" in done.stderr, done
    bad = closed("run", place.campaign((NULL % "1s").replace("{mean: 1ms}", "{mean: 1ms}, errors: 1%")), "--runs", place.runs)
    assert bad.returncode == 1 and "OUTPUT_FAILED" in bad.stderr, bad


def test_hangup_is_ignored_under_nohup(place):
    process = subprocess.Popen(["nohup", MUSTER, "run", place.campaign(NULL % "4s"), "--runs", place.runs, "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    read_events(process, in_measure)
    process.send_signal(signal.SIGHUP)
    assert finish(process, 60).result()["outcome"] == "complete"


def test_export_replaces_nothing_but_files(place):
    assert run(place, place.campaign(QUICK)).code == 0
    export = ("results", "--runs", place.runs, "export", "last", "--format", "csv", "-o")
    fifo, link, target = (os.path.join(place.path, n) for n in ("fifo", "link", "target.csv"))
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True)
    assert muster(*export, fifo).code == 0
    assert "fleet" in reader.communicate(timeout=30)[0] and not os.path.isfile(fifo)
    place.file("target.csv", "old")
    os.symlink(target, link)
    assert muster(*export, link).code == 0
    assert os.path.islink(link) and "fleet" in open(target).read()
    assert muster(*export, "/dev/full").code == 3 and not os.path.isfile("/dev/full")


def test_operations_beyond_the_timeout_have_failed(place):
    done = run(place, place.campaign("""
name: late
op_timeout: 1s
targets: {t: {null: {latency: {mean: 10ms}, stalls: [{at: 1500ms, for: 3s}]}}}
steps: [{name: late, target: t, workload: {size: 1MiB}, load: 1T4Q, measure: {warmup: 1s, window: 5s}}]
"""))
    step = done.steps()[0]
    assert done.code == 1 and step["outcome"] == "INVALID", step
    assert [(e["class"], e["count"]) for e in step["errors"]] == [("timeout", 4)], step["errors"]
    assert step["fleet"]["kinds"][0]["response"]["max_ns"] < 1_000_000_000, "no timed-out operation in a success histogram"


def beside(place, agent):
    """muster with another program as its local agent."""
    folder = os.path.join(place.path, "bin")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(MUSTER, folder)
    path = os.path.join(folder, "muster-agent")
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n" + agent)
    os.chmod(path, 0o755)
    return os.path.join(folder, "muster")


def test_local_agent_that_dies_before_it_connects_is_reported_at_once(place):
    program = beside(place, "echo no such library >&2\nexit 7\n")
    begun = time.monotonic()
    done = subprocess.run([program, "run", place.campaign(NULL % "60s"), "--runs", place.runs], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "AGENT_ENDED" in done.stderr, done
    assert "exit code 7" in done.stderr and "no such library" in done.stderr, done
    assert time.monotonic() - begun < 10, "not after half a minute of waiting"


def test_interrupt_before_agents_connect(place):
    program = beside(place, "echo waiting\ncat <&3\n")  # ends with the controller, never connects
    process = subprocess.Popen([program, "run", place.campaign(NULL % "60s"), "--runs", place.runs, "--local", "2"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(children_of(process.pid)) == 2, what="both agents")
    agents = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=25)
    assert process.returncode == 1, (process.returncode, out, err)
    assert not any(alive(p) for p in agents)


def test_full_hang_shows_how_long(place):
    done = muster("run", place.campaign("""
name: hang
op_timeout: 1s
targets: {t: {null: {hang: true}}}
steps: [{name: hang, target: t, workload: {size: 1MiB}, load: 1T4Q, measure: {warmup: 1s, window: 1s}}]
"""), "--runs", place.runs)
    assert done.code == 1, done
    row = next(line for line in done.out.splitlines() if line.startswith("hang"))
    # step outcome init load IOPS MB/s mean p50 p99 p99.9 max (two words) depth
    cells = row.split()
    assert cells[4] == "0" and cells[6] == "-" and float(cells[10]) >= 1 and cells[11] == "s", row
    assert "4 outstanding, oldest" in done.err and "0 ns" not in done.err, done.err


def test_nothing_measured_is_not_valid(place):
    done = run(place, place.campaign("""
name: idle
targets: {t: {null: {}}}
steps: [{name: idle, target: t, workload: {size: 1MiB, rate: 1/min, pacing: fixed}, measure: {warmup: 1s, window: 1s}}]
"""))
    step = done.steps()[0]
    # The seed decides when the one operation a minute is due: not in these two seconds.
    assert step["fleet"]["kinds"][0]["completed"] == 0, step
    assert done.code == 1 and step["outcome"] == "INVALID", step


if __name__ == "__main__":
    main(globals())
