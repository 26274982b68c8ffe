"""The long-running controller: several runs at once, the queue, clients that come and go, ends of every kind."""
import json
import os
import re
import signal
import time

from harness import finish, main, muster, read_events, start, wait_for
from serving import Serving, serving

NULL = """
name: %(name)s
targets: {cal: {null: {latency: {mean: %(latency)s}}}}
initiators: {count: 2, match: {%(match)s}}
interval: %(interval)s
steps:
  - name: one
    target: cal
    workload: {size: 1GiB}
    load: 1T4Q
    measure: {warmup: %(warmup)s, window: %(window)s}
"""


def null(place, name, window="3s", match="", interval="1s", latency="1ms", warmup="1s"):
    return place.file(name + ".yaml", NULL % dict(name=name, window=window, match=match, interval=interval,
                                                  latency=latency, warmup=warmup))


def error_code(done):
    return json.loads(done.out.splitlines()[-1])["error"]["code"]


def workers_of(pid):
    """Worker threads of an agent."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm") as f:
                found += [name for name in [f.read().strip()] if name.startswith("muster-w")]
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended
    return found


def test_runs_on_disjoint_agents_go_on_at_the_same_time(place):
    with serving(place) as it:
        it.agent("a1", "--label", "rack=a")
        it.agent("b1", "--label", "rack=b", "--label", "net=fast")
        it.agent("b2", "--label", "rack=b")
        it.wait_for_agents("a1", "b1", "b2")
        there = it.there()
        assert there["b1"]["labels"] == {"rack": "b", "net": "fast"} and there["b1"]["state"] == "idle", there
        assert 0 < there["a1"]["lease_left_ns"] <= 10e9, there
        wait_for(lambda: (it.there()["a1"]["clock_error_ns"] or 0) > 0, 20, "a clock that has been measured")
        first = it.begin("run", null(place, "first", "5s", "rack: a"), "--json")
        second = it.begin("run", null(place, "second", "5s", "rack: b"), "--json")

        def measuring():
            found = [r for r in it.runs().values() if r["state"] == "running" and r["iops"] > 0]
            return found if len(found) == 2 else None
        both = wait_for(measuring, 30, "two runs at once")
        assert sorted(r["agents"] for r in both) == [["a1"], ["b1", "b2"]], both
        busy = it.there()
        assert busy["a1"]["run"] != busy["b1"]["run"] and busy["b1"]["run"] == busy["b2"]["run"], busy
        for process in (first, second):
            done = finish(process)
            assert done.code == 0, done
            result = done.result()
            assert result["outcome"] == "complete" and result["run"]["steps"][0]["outcome"] == "VALID", result
        # An agent serves one run after the other.
        again = it.ask("run", null(place, "again", "2s", "rack: b"), "--json")
        assert again.code == 0 and again.result()["run"]["steps"][0]["outcome"] == "VALID", again
        assert it.there()["a1"]["state"] == "idle"


def test_runs_that_share_a_target_queue_and_say_so(place):
    os.makedirs(os.path.join(place.path, "data"))
    file = """
name: %s
targets: {f: {file: {dir: %s/data, direct: false}}}
initiators: {match: {n: %s}}
steps:
  - name: one
    target: f
    workload: {size: 16MiB}
    measure: {warmup: 1s, window: %s}
"""
    with serving(place) as it:
        for n in ("1", "2"):
            it.agent("a" + n, "--label", "n=" + n, "--allow-root", place.path)
        it.wait_for_agents("a1", "a2")
        first = it.submit(place.file("first.yaml", file % ("first", place.path, "1", "3s")))
        second = it.begin("run", place.file("second.yaml", file % ("second", place.path, "2", "1s")))
        waits = wait_for(lambda: [r for r in it.runs().values() if r["state"] == "waiting" and r["waits_for"]], 30, "a queue")
        assert re.match(f"target directory {place.path}/data on .*, used by run {first}", waits[0]["waits_for"][0]), waits
        shown = it.ask("status").out
        assert f"waits for target directory {place.path}/data" in shown, shown
        assert "1/1 one" in shown and first in shown, shown
        done = finish(second)
        assert done.code == 0, done
        assert f"waits for target directory {place.path}/data on" in done.err and f"used by run {first}" in done.err, done
        assert it.runs()[first]["outcome"] == "complete", it.runs()
        listed = muster("results", "list", "--runs", place.runs, "--json")
        times = sorted((r["started_wall_micros"], r["finished_wall_micros"]) for r in json.loads(listed.out)["runs"])
        assert times[0][1] <= times[1][0], times


def test_a_target_that_a_lost_agent_may_still_load_is_not_given_away(place):
    os.makedirs(os.path.join(place.path, "data"))
    file = """
name: %s
op_timeout: 2s
targets: {f: {file: {dir: %s/data, direct: false}}}
initiators: {match: {n: "%s"}}
steps:
  - name: one
    target: f
    workload: {size: 16MiB}
    measure: {warmup: 0s, window: %s}
"""
    with serving(place, "--lease", "3s") as it:
        it.agent("a1", "--label", "n=1", "--allow-root", place.path)
        it.agent("a2", "--label", "n=2", "--allow-root", place.path)
        it.wait_for_agents("a1", "a2")
        first = it.submit(place.file("first.yaml", file % ("first", place.path, "1", "60s")))
        it.measuring(first)
        it.agents["a1"].kill()  # the controller cannot tell it from one that is cut off and goes on
        second = it.begin("run", place.file("second.yaml", file % ("second", place.path, "2", "1s")))
        it.wait_for_run(first, lambda r: r["state"] == "ended")
        waits = wait_for(lambda: [r for r in it.runs().values() if r["state"] == "waiting" and r["waits_for"]], 10, "a queue")
        said = f"target directory {place.path}/data on .*, which an agent that run {first} lost may load for up to [0-9.]+m?s after its end"
        assert re.match(said, waits[0]["waits_for"][0]), waits
        done = finish(second)
        assert done.code == 0, done
        listed = json.loads(muster("results", "list", "--runs", place.runs, "--json").out)["runs"]
        (begun,) = [r["started_wall_micros"] for r in listed if r["id"] != first]
        (ended,) = [r["finished_wall_micros"] for r in listed if r["id"] == first]
        assert begun - ended >= 5e6, listed  # its operations may take 2 s and are given 5 s more


def test_agents_are_waited_for_by_number_and_label(place):
    with serving(place) as it:
        run = it.submit(null(place, "two", "1s", "rack: b"), "--agents", "2")
        waits = it.wait_for_run(run, lambda r: r["waits_for"])
        assert waits["waits_for"] == ["agents: 0 of the 2 that match rack=b are there"], waits
        it.agent("a1", "--label", "rack=a")
        it.agent("b1", "--label", "rack=b")
        it.wait_for_run(run, lambda r: r["waits_for"] == ["agents: 1 of the 2 that match rack=b are there"])
        it.agent("b2", "--label", "rack=b")
        done = it.ask("watch", run)
        assert done.code == 0, done
        assert it.runs()[run]["agents"] == ["b1", "b2"], it.runs()


def test_cancel(place):
    with serving(place) as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        running = it.submit(null(place, "long", "300s"))
        waiting = it.submit(null(place, "next", "300s"))
        it.measuring(running)
        gone = it.ask("cancel", waiting, "--json")
        assert gone.code == 0 and json.loads(gone.out)["had_begun"] is False, gone
        assert it.runs()[waiting]["outcome"] == "cancelled"
        watched = it.ask("watch", waiting)
        assert watched.code == 1 and "CANCELLED" in watched.err, watched
        # A beginning of the id will do.
        asked = it.ask("cancel", running[:-1])
        assert asked.code == 0 and running in asked.out, asked
        done = it.ask("watch", running, "--json")
        assert done.code == 1, done
        step = done.result()["run"]["steps"][0]
        assert step["outcome"] == "CANCELLED" and step["fleet"]["kinds"][0]["completed"] > 0, step
        now = it.submit(null(place, "now", "300s"))
        it.measuring(now)
        assert it.ask("cancel", "last", "--now").code == 0
        assert it.wait_for_run(now, lambda r: r["state"] == "ended")["outcome"] == "cancelled"
        over = it.ask("cancel", now, "--json")
        assert over.code == 2 and error_code(over) == "RUN_NOT_RUNNING", over
        unknown = it.ask("cancel", "nonsense", "--json")
        assert unknown.code == 2 and error_code(unknown) == "RUN_UNKNOWN", unknown
        unknown = it.ask("watch", "nonsense", "--json")
        assert unknown.code == 2 and error_code(unknown) == "RUN_UNKNOWN", unknown


def test_interrupt_of_the_client_cancels_its_run_and_of_a_watcher_does_not(place):
    with serving(place) as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        owner = it.begin("run", null(place, "long", "300s"), "--json")
        read_events(owner, lambda e: e["event"] == "live" and e["interval"] >= 1)
        run = next(iter(it.runs()))
        watcher = it.begin("watch", "last", "--json")
        seen = read_events(watcher, lambda e: e["event"] == "live")
        assert [e["event"] for e in seen][:2] == ["run", "phase"], seen
        watcher.send_signal(signal.SIGINT)
        assert "goes on" in finish(watcher).out
        assert it.runs()[run]["state"] == "running"
        second = it.begin("watch", run)
        owner.send_signal(signal.SIGINT)
        done = finish(owner, 30)
        assert done.code == 1 and done.result()["outcome"] == "cancelled", done
        # Who watched sees the same end, and the same exit code.
        done = finish(second, 30)
        assert done.code == 1 and "CANCELLED" in done.err and f"run {run}: cancelled" in done.out, done


def test_a_run_goes_on_without_its_client(place):
    with serving(place) as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        for how in (signal.SIGKILL, signal.SIGHUP):
            client = it.begin("run", null(place, "kept", "4s"), "--json")
            read_events(client, lambda e: e["event"] == "live")
            client.send_signal(how)
            client.communicate()
            done = it.ask("watch", "last", "--json")
            assert done.code == 0, done
            assert done.result()["run"]["steps"][0]["outcome"] == "VALID", done


def test_drain_keeps_what_was_measured(place):
    with serving(place) as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        campaign = null(place, "long", "300s", interval="5s", warmup="5s")
        client = it.begin("run", campaign, "--json")
        read_events(client, lambda e: e["event"] == "live" and e["interval"] >= 1)
        waiting = it.begin("run", campaign, "--json")
        wait_for(lambda: len(it.runs()) == 2, 20, "a waiting run")
        it.serve.send_signal(signal.SIGTERM)
        wait_for(lambda: json.loads(it.ask("status", "--json").out)["draining"], 10, "draining")
        late = it.ask("run", campaign, "--json")
        assert late.code == 3 and error_code(late) == "CONTROLLER_DRAINING", late
        done = finish(waiting, 30)
        assert done.code == 1 and "the controller is ending" in done.err, done
        done = finish(client, 60)
        step = done.result()["run"]["steps"][0]
        assert done.code == 1 and step["outcome"] == "CANCELLED" and step["fleet"]["kinds"][0]["completed"] > 0, done
        assert next(c for c in step["checks"] if c["name"] == "sums")["outcome"] == "pass", step["checks"]
        assert it.serve.wait(30) == 0
        it.serve.communicate()
        # Agents were told, and are back when there is a controller again.
        wait_for(lambda: "the controller is ending" in it.agent_log("a1"), 10, "goodbye")
        assert it.agents["a1"].poll() is None
        it.start()
        it.wait_for_agents("a1")
        assert it.ask("run", null(place, "after", "1s")).code == 0


def test_second_signal_and_the_bound_of_a_drain_stop_runs_at_once(place):
    for args, signals in ((["--drain", "60s"], 2), (["--drain", "1s"], 1)):
        with serving(place, *args) as it:
            it.agent("a1")
            it.wait_for_agents("a1")
            run = it.submit(null(place, "long", "600s", interval="60s", warmup="60s"))
            it.wait_for_run(run, lambda r: r["phase"] == "measure")
            began = time.monotonic()
            for _ in range(signals):
                it.serve.send_signal(signal.SIGTERM)
                time.sleep(0.2)  # two signals of one kind that meet are one
            assert it.serve.wait(40) == 0
            assert time.monotonic() - began < 40
            listed = json.loads(muster("results", "list", "--runs", place.runs, "--json").out)["runs"]
            assert next(r for r in listed if r["id"] == run)["outcome"] == "cancelled", listed


def test_agents_may_come_first(place):
    it = Serving(place)
    try:
        it.agent("early")
        wait_for(lambda: "no link" in it.agent_log("early"), 20, "an agent without a controller")
        it.start()
        it.wait_for_agents("early")
        assert it.ask("run", null(place, "short", "1s")).code == 0
    finally:
        it.end()


def test_killed_controller_stops_the_load_and_a_new_one_has_the_agents_again(place):
    with serving(place, "--lease", "3s") as it:
        it.agent("a1")
        it.agent("a2")
        it.wait_for_agents("a1", "a2")
        client = it.begin("run", null(place, "long", "300s"), "--json")
        read_events(client, lambda e: e["event"] == "live" and e["interval"] >= 2)
        run = next(iter(it.runs()))
        assert all(workers_of(agent.pid) for agent in it.agents.values())
        it.kill()
        done = finish(client, 30)
        assert done.code == 3 and error_code(done) == "CONTROLLER_LOST", done
        # Load is what worker threads make: they are gone a moment after the lease.
        for agent in it.agents.values():
            wait_for(lambda: not workers_of(agent.pid), 3 + 5, "the end of the load")
        it.start("--lease", "3s")
        it.wait_for_agents("a1", "a2")
        assert it.there()["a1"]["state"] == "idle" and it.runs() == {}, it.runs()
        shown = muster("results", "show", run, "--runs", place.runs, "--json")
        assert json.loads(shown.out)["steps"][0]["outcome"] == "INTERRUPTED", shown
        again = it.ask("run", null(place, "again", "2s"), "--json")
        assert again.code == 0 and again.result()["run"]["steps"][0]["outcome"] == "VALID", again


def test_a_watcher_that_does_not_read_is_cut_off_and_slows_nobody(place):
    with serving(place) as it:
        # Long names make large events: what the network takes for a stopped process is filled sooner.
        names = [f"a{i}-" + "x" * 56 for i in range(6)]
        for name in names:
            it.agent(name)
        it.wait_for_agents(*names)
        campaign = null(place, "long", "300s", interval="100ms", latency="20ms")
        run = it.submit(campaign, "--agents", "6")
        it.measuring(run)
        stuck = it.begin("watch", run, "--json")
        read_events(stuck, lambda e: e["event"] == "live")
        reader = it.begin("watch", run, "--json")
        stuck.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: "WATCHER_TOO_SLOW" in it.log_text(), 90, "the cut")
            line = next(x for x in it.log_text().splitlines() if "WATCHER_TOO_SLOW" in x)
            assert f"run={run} watcher" in line, line
        finally:
            stuck.send_signal(signal.SIGCONT)
        # It is told why, and that the run goes on.
        done = finish(stuck, 30)
        assert done.code == 3 and error_code(done) == "WATCHER_TOO_SLOW", done
        assert it.runs()[run]["state"] == "running"
        assert it.ask("cancel", run).code == 0
        done = finish(reader, 60)
        assert done.result()["run"]["steps"][0]["outcome"] == "CANCELLED", done
        live = [e["interval"] for e in done.events() if e["event"] == "live"]
        assert live == sorted(live) and len(live) > 20, live


def test_log_has_fields_and_follows_its_name(place):
    with serving(place) as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        run = it.submit(null(place, "long", "60s"))
        it.measuring(run)
        for number in (signal.SIGHUP, signal.SIGUSR1):
            moved = f"{it.log}.{int(number)}"
            os.rename(it.log, moved)
            it.serve.send_signal(number)
            wait_for(lambda: os.path.exists(it.log), 10, "a new log file")
        it.agents["a1"].kill()
        it.wait_for_run(run, lambda r: r["state"] == "ended")
        text = it.log_text()
        lost = [x for x in text.splitlines() if "lost" in x]
        assert lost and re.match(rf"\d{{4}}-\d\d-\d\dT[\d:.]+Z muster warning run={run} step=1 phase=measure agent=a1 ", lost[0]), text
        with open(f"{it.log}.{int(signal.SIGHUP)}") as f:
            assert f"run={run} step=1 phase=measure" in f.read()
        watched = it.ask("watch", run)
        assert watched.code == 3 and "aborted" in watched.out, watched


def test_secrets_reach_neither_log_nor_store(place):
    campaign = place.file("chap.yaml", """
name: chap
targets:
  lun:
    iscsi: {portal: "127.0.0.1:1", iqn: "iqn.2026-11.example:none"}
    chap: {user: bench, secret: {env: SERVE_TEST_SECRET}}
steps:
  - name: one
    target: lun
    workload: {size: 16MiB}
    measure: {warmup: 1s, window: 1s}
""")
    secret = "s3cr3t-" + os.urandom(8).hex()
    with serving(place, "--log-level", "debug") as it:
        it.agent("a1", "--log-level", "debug")
        it.wait_for_agents("a1")
        missing = it.ask("run", campaign, "--json")
        assert missing.code == 2 and error_code(missing) == "SECRET_MISSING", missing
        done = it.ask("run", campaign, "--json", env={**os.environ, "SERVE_TEST_SECRET": secret})
        assert done.code == 3 and done.result()["run"]["steps"][0]["outcome"] == "FAILED", done
        assert secret not in done.out + done.err
        for folder, _, names in os.walk(place.path):
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.isfile(path):
                    continue
                with open(path, "rb") as f:
                    assert secret.encode() not in f.read(), path


def test_clients_without_a_controller_are_told(place):
    address = "unix:" + os.path.join(place.path, "none.sock")
    for verb in (["agents"], ["status"], ["watch", "last"], ["cancel", "last"], ["run", null(place, "short")]):
        done = muster(*verb, "--controller", address, "--json")
        assert done.code == 3 and error_code(done) == "CONTROLLER_NOT_THERE", done
        assert "muster serve" in done.err, done
    bad = muster("agents", "--controller", "unix:relative", "--json")
    assert bad.code == 2 and error_code(bad) == "ENDPOINT_INVALID", bad
    both = muster("run", null(place, "short"), "--controller", address, "--local", "2")
    assert both.code == 2 and "--local" in both.err, both
    alone = muster("run", null(place, "short"), "--detach")
    assert alone.code == 2 and "--detach" in alone.err, alone


def test_the_controller_is_named_by_the_environment_too(place):
    with serving(place) as it:
        it.agent("a1")
        it.wait_for_agents("a1")
        env = {**os.environ, "MUSTER_CONTROLLER": it.address}
        assert "a1" in muster("agents", env=env).out
        done = muster("run", null(place, "short", "1s"), "--json", env=env)
        assert done.code == 0 and done.result()["path"].startswith(place.runs), done
        assert len(it.runs()) == 1
        # Asked for agents of its own, it runs here.
        done = muster("run", null(place, "here", "1s"), "--local", "1", "--json", "--runs", place.runs, env=env)
        assert done.code == 0 and len(it.runs()) == 1, done


def test_one_socket_one_controller(place):
    with serving(place) as it:
        second = start("serve", "--listen", it.address, "--runs", place.runs)
        done = finish(second, 20)
        assert done.code == 3 and "SOCKET_IN_USE" in done.err, done
        code, err = it.stop()
        assert code == 0, err
        assert not os.path.exists(it.address[5:])


if __name__ == "__main__":
    main(globals())
