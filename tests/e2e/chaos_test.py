"""A fleet under a seeded stream of faults: whatever breaks, every run ends, what is called VALID is right, nothing stays behind.

MUSTER_CHAOS_SECONDS (120) is how long faults come, MUSTER_CHAOS_SEED names the choices: the same seed makes the same
faults and campaigns in the same order; what processes make of them differs. Faults are dealt like cards, so half a minute has
nearly every kind and a minute has all.
"""
import heapq
import json
import os
import random
import re
import signal
import subprocess
import time

from harness import AGENT, main, muster, start, wait_for
from link_proxy import LinkProxy
from serving import Serving

AGENTS = 4
LEASE = 3  # seconds
# From the longest way through a step: attach, prepare, start, window, drain, three windows begun anew, each after quiet.
ENDS_WITHIN = 240

CAMPAIGN = """
name: %(name)s
op_timeout: 1s
interval: %(interval)s
on_agent_loss: %(policy)s
targets: {%(target)s}
initiators: {count: %(initiators)d%(match)s}
steps:
%(steps)s
"""
STEP = """  - name: s%(n)d
    target: t
    workload: {block: 4KiB, read: %(read)d%%, size: 16MiB%(rate)s}
    load: %(load)s
%(fill)s    measure: {warmup: 1s, window: %(window)ds}
"""


class Fleet(Serving):
    """A controller, agents that dial it through a proxy each, and what has been done to them."""

    def __init__(self, place):
        super().__init__(place)
        upstream = self.address[len("unix:"):]
        self.names = [f"a{i}" for i in range(AGENTS)]
        self.proxies = {n: LinkProxy(os.path.join(place.path, n + ".sock"), lambda: upstream) for n in self.names}
        self.ours = []  # process numbers this test has killed
        self.ended = []  # (what, exit code) of processes that ended by themselves
        self.serves = 0

    def start(self, *args):
        self.serves += 1
        super().start("--lease", f"{LEASE}s", *args)

    def start_agent(self, name):
        with open(os.path.join(self.place.path, f"agent-{name}.log"), "a") as log:
            self.agents[name] = subprocess.Popen(
                [AGENT, "--controller", "unix:" + self.proxies[name].path, "--id", name, "--label", f"n={name}",
                 "--allow-root", self.place.path], stdout=log, stderr=log)

    def look_after(self):
        """Agents that have ended are started again, as an init system does."""
        for name, process in list(self.agents.items()):
            if process.poll() is None:
                continue
            if process.pid not in self.ours:
                self.ended.append((f"agent {name}", process.returncode))
            self.start_agent(name)

    def kill(self):
        self.ours.append(self.serve.pid)
        super().kill()

    def up(self):
        return self.serve is not None


def campaign(rng, place, number):
    file = rng.random() < 0.4
    steps = ""
    for n in range(rng.choice((1, 1, 2))):
        paced = rng.random() < 0.3
        steps += STEP % dict(n=n, read=rng.choice((0, 70, 100)), window=rng.choice((2, 3, 5)),
                             rate=", rate: 400/s, pacing: poisson" if paced else "", load="1T1Q" if paced else "1T4Q",
                             fill="    precondition: {fill: 1x}\n" if file else "")
    text = CAMPAIGN % dict(
        name=f"c{number}", interval=rng.choice(("1s", "500ms")), policy=rng.choice(("continue", "abort")),
        target=(f"t: {{file: {{dir: {place.path}/data{number % 3}, direct: false}}}}" if file
                else "t: {null: {latency: {mean: 2ms}}}"),
        initiators=rng.choice((1, 3, 4, 6)), match=rng.choice(("", "", ", match: {n: a%d}" % rng.randrange(AGENTS))), steps=steps)
    return place.file(f"c{number}.yaml", text)


class Chaos:
    def __init__(self, fleet, seed):
        self.fleet, self.seed, self.place = fleet, seed, fleet.place
        self.rng = None  # of the fault at hand: what one draws changes no other
        self.deck = []
        self.said = []  # faults as they came, for whoever must find out
        self.began = time.monotonic()
        self.submitted = set()
        self.later = []  # (when, number, what to do)
        self.number = 0
        self.clients = []
        self.runs = {}  # id -> when it was first seen
        self.cut = set()  # of those, the ones whose controller was killed before they ended
        self.over = set()
        self.done = {}  # fault -> how often

    def after(self, seconds, what):
        self.number += 1
        heapq.heappush(self.later, (time.monotonic() + seconds, self.number, what))

    def signal(self, name, number):
        process = self.fleet.agents[name]
        if process.poll() is None:
            process.send_signal(number)

    # ---- faults -----------------------------------------------------------------------------------------------------
    def kill_agent(self):
        name = self.rng.choice(self.fleet.names)
        process = self.fleet.agents[name]
        self.fleet.ours.append(process.pid)
        process.kill()
        process.wait()

    def stop_short(self):
        name = self.rng.choice(self.fleet.names)
        self.signal(name, signal.SIGSTOP)
        self.after(self.rng.uniform(0.2, 1.5), lambda: self.signal(name, signal.SIGCONT))

    def stop_long(self):
        name = self.rng.choice(self.fleet.names)
        self.signal(name, signal.SIGSTOP)
        self.after(self.rng.uniform(LEASE + 1, LEASE + 4), lambda: self.signal(name, signal.SIGCONT))

    def cut_short(self):
        self.fleet.proxies[self.rng.choice(self.fleet.names)].cut(self.rng.uniform(0, 1.5))

    def cut_long(self):
        self.fleet.proxies[self.rng.choice(self.fleet.names)].cut(self.rng.uniform(LEASE + 1, LEASE + 3))

    def mute(self):
        self.fleet.proxies[self.rng.choice(self.fleet.names)].mute()

    def twin(self):
        name = self.rng.choice(self.fleet.names)
        process = subprocess.Popen([AGENT, "--controller", self.fleet.address, "--id", name], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)

        def end():
            if process.poll() is None:
                process.kill()
            elif process.returncode < 0:
                self.fleet.ended.append((f"second agent {name}", process.returncode))
            process.wait()
        self.after(self.rng.uniform(0.5, 2), end)

    def cancel(self):
        going_on = sorted(set(self.runs) - self.over - self.cut)
        if going_on and self.fleet.up():
            self.fleet.ask("cancel", self.rng.choice(going_on))  # it may have ended since

    def kill_client(self):
        for process in self.clients:
            if process.poll() is None:
                process.kill()
                return

    def kill_controller(self):
        if not self.fleet.up():
            return
        self.look()
        self.cut |= set(self.runs) - self.over
        self.fleet.kill()
        self.after(self.rng.uniform(0.1, 2 * LEASE), self.fleet.start)

    # ---- load -------------------------------------------------------------------------------------------------------
    def submit(self, number):
        rng = random.Random(f"{self.seed} campaign {number}")
        path = campaign(rng, self.place, number)
        followed = rng.random() < 0.3
        if not self.fleet.up():
            return
        if followed:
            self.clients.append(start("run", path, "--controller", self.fleet.address, "--json"))
        else:
            run = self.fleet.submit(path)
            self.submitted.add(run)
            self.runs.setdefault(run, time.monotonic())

    def look(self):
        """Notes what runs there are and which have ended."""
        if not self.fleet.up():
            return []
        runs = list(self.fleet.runs().values())
        for run in runs:
            self.runs.setdefault(run["id"], time.monotonic())
            if run["state"] == "waiting":
                self.runs[run["id"]] = time.monotonic()  # its deadlines count from when it begins
            if run["state"] == "ended":
                self.over.add(run["id"])
        late = [r for r in runs if r["state"] != "ended" and time.monotonic() - self.runs[r["id"]] > ENDS_WITHIN]
        assert not late, f"still going on after {ENDS_WITHIN} s: {late}"
        gone = set(self.runs) - self.cut - self.over - {r["id"] for r in runs}
        assert not gone, f"the controller knows nothing any more of {gone}"
        return runs

    def step_until(self, when):
        while True:
            now = time.monotonic()
            while self.later and self.later[0][0] <= now:
                heapq.heappop(self.later)[2]()
            if now >= when:
                return
            time.sleep(max(0, min(when, self.later[0][0] if self.later else when) - now))

    def go_on(self, seconds):
        dealer = random.Random(f"{self.seed} faults")
        faults = [(self.kill_agent, 3), (self.stop_short, 4), (self.stop_long, 2), (self.cut_short, 4), (self.cut_long, 2),
                  (self.mute, 2), (self.twin, 1), (self.cancel, 2), (self.kill_client, 1), (self.kill_controller, 1)]
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end:
            if sum(r["state"] != "ended" for r in self.look()) < 3:
                self.submit(number)
                number += 1
            if not self.deck:
                self.deck = [f for f, weight in faults for _ in range(weight)]
                dealer.shuffle(self.deck)
            fault = self.deck.pop()
            self.done[fault.__name__] = self.done.get(fault.__name__, 0) + 1
            self.said.append(f"{time.monotonic() - self.began:.1f} s {fault.__name__}")
            self.rng = random.Random(f"{self.seed} fault {len(self.said)}")
            pause = self.rng.uniform(0.5, 3.5)
            fault()
            self.step_until(time.monotonic() + pause)
            self.fleet.look_after()

    def calm_down(self):
        while self.later:
            self.step_until(self.later[0][0])
        for name in self.fleet.names:
            self.signal(name, signal.SIGCONT)
        if not self.fleet.up():
            self.fleet.start()
        for process in self.clients:
            if process.poll() is None:
                process.kill()
            process.communicate()

        def ended():
            self.fleet.look_after()
            return all(r["state"] == "ended" for r in self.look())
        wait_for(ended, ENDS_WITHIN, "end of every run")

        def idle():
            self.fleet.look_after()
            there = self.fleet.there()
            return set(self.fleet.names) <= set(there) and all(a["state"] == "idle" for a in there.values())
        wait_for(idle, 60, "agents that are all there and idle")


def check_step(run, step):
    """What VALID promises, recomputed from what the export says."""
    checks = {c["name"]: c["outcome"] for c in step["checks"]}
    assert "fail" not in checks.values(), (run, step["name"], checks)
    for name in ("sums", "coverage", "intervals", "errors"):
        assert checks[name] in ("pass", "warn"), (run, step["name"], checks)
    assert checks["sums"] == "pass", (run, step["name"], checks)
    assert step["window"]["intervals"] == step["window"]["intervals_asked"], (run, step["window"])
    assert step["initiators_heard"] + step["left_out_initiators"] == step["initiators_asked"], (run, step)
    check_totals(run, step)


def check_totals(run, step):
    """The fleet's figures are the sums of its initiators'."""
    assert len(step["initiators"]) == step["initiators_heard"], (run, step["name"])
    for i, kind in enumerate(step["fleet"]["kinds"]):
        for field in ("completed", "bytes", "failed"):
            rows = [g["kinds"][i][field] for g in step["initiators"]]
            assert kind[field] == sum(rows), (run, step["name"], field, kind[field], rows)
        rows = [g["kinds"][i]["response"]["count"] for g in step["initiators"]]
        assert kind["response"]["count"] == sum(rows), (run, step["name"], rows)
        rows = [g["kinds"][i]["response"]["sum_ns"] for g in step["initiators"]]
        assert kind["response"]["sum_ns"] == sum(rows), (run, step["name"], rows)


def left_running(place):
    """Processes whose command line names the test's directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
                line = f.read().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if place.path in line and int(pid) != os.getpid():
            found.append((pid, line))
    return found


def check_runs(place, chaos):
    outcomes = {}
    missing = chaos.submitted - chaos.cut - set(os.listdir(place.runs)) - chaos.over
    assert not missing, f"submitted, and neither ended nor cut off: {missing}"
    for run in sorted(os.listdir(place.runs)):
        if not os.path.exists(os.path.join(place.runs, run, "run.db")):
            assert run in chaos.cut, f"{run} has no run file"
            continue
        done = muster("results", "export", run, "--format", "json", "--runs", place.runs)
        assert done.code == 0, (run, done)
        exported = json.loads(done.out)
        outcome = exported["run"]["outcome"]
        shown = muster("results", "show", run, "--runs", place.runs)
        assert shown.code in (0, 1) and not shown.err, shown
        for step in exported["steps"]:
            outcomes[step["outcome"]] = outcomes.get(step["outcome"], 0) + 1
            if step["outcome"] == "VALID":
                check_step(run, step)
        known = ("complete", "cancelled", "failed", "aborted")
        # A client may have handed one in between the last look at the controller and its kill: nobody saw it end then.
        cut_unseen = outcome == "interrupted" and chaos.fleet.serves > 1 and run not in chaos.over
        assert outcome in known or run in chaos.cut or cut_unseen, (run, outcome)
    return outcomes


def test_chaos(place):
    seconds = float(os.environ.get("MUSTER_CHAOS_SECONDS", "120"))
    seed = int(os.environ.get("MUSTER_CHAOS_SEED", str(random.SystemRandom().randrange(1 << 32))))
    print(f"seed {seed}: MUSTER_CHAOS_SEED={seed} makes the same choices", flush=True)
    fleet = Fleet(place)
    for n in range(3):
        os.makedirs(os.path.join(place.path, f"data{n}"))
    chaos = Chaos(fleet, seed)
    try:
        fleet.start()
        for name in fleet.names:
            fleet.start_agent(name)
        fleet.wait_for_agents(*fleet.names)
        chaos.go_on(seconds)
        chaos.calm_down()
        # What went through all that measures as well as on its first day.
        last = fleet.ask("run", place.file("last.yaml", CAMPAIGN % dict(
            name="last", interval="1s", policy="abort", target="t: {null: {latency: {mean: 2ms}}}", initiators=AGENTS, match="",
            steps=STEP % dict(n=0, read=100, window=2, rate="", load="1T4Q", fill=""))), "--agents", str(AGENTS), "--json")
        assert last.code == 0 and last.steps()[0]["outcome"] == "VALID", last
        code, err = fleet.stop()
        assert code == 0, (code, err)
        for name in fleet.names:
            fleet.agents[name].terminate()
            assert fleet.agents[name].wait(60) in (0, -signal.SIGTERM), name
        assert not fleet.ended, f"ended by themselves: {fleet.ended}"
        assert not left_running(place), left_running(place)
        for file in os.listdir(place.path):
            if file.endswith(".log"):
                with open(os.path.join(place.path, file), errors="replace") as f:
                    found = re.search(r"terminate called|Assertion|Sanitizer|assertion failed|Check failed", f.read())
                assert not found, (file, found)
        outcomes = check_runs(place, chaos)
        print(f"faults {chaos.done}; {len(chaos.runs)} runs, of them {len(chaos.cut)} cut off by {fleet.serves - 1} controllers killed; "
              f"steps {outcomes}", flush=True)
        assert outcomes.get("VALID", 0) >= 2, outcomes
    except Exception:
        if fleet.up() and fleet.serve.poll() is not None:
            print(f"the controller has ended: {fleet.serve.returncode} {fleet.serve.stderr.read()}", flush=True)
        print("\n".join(chaos.said), flush=True)
        with open(fleet.log) as f:
            print(f.read()[-6000:], flush=True)
        raise
    finally:
        for proxy in fleet.proxies.values():
            proxy.close()
        fleet.end()


if __name__ == "__main__":
    main(globals())
