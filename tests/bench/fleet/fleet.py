"""What a fleet costs its controller: CPU, bytes of a report, bytes kept. Real processes on a Unix socket, null targets.

Reports are measured with about 30 k operations of two kinds an initiator and interval, closed and open loop; CPU and what is
kept by a fleet under a small paced load, which leaves the machine idle, and under a closed loop that fills it. Bytes are those of
the run file's raw reports (--keep-raw). Prints figures with the machine and the aims; none is a criterion on its own.
"""
import argparse
import contextlib
import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bin", required=True)
parser.add_argument("--agents", type=int, default=24)
parser.add_argument("--seconds", type=int, default=30, help="window of the CPU figure")
options = parser.parse_args()
BIN = os.path.abspath(options.bin)

RETENTION = 2 << 30  # bytes of histograms an interval that a run file keeps by default

# Two kinds, latencies over some octaves as of a real target.
CAMPAIGN = """
name: {name}
targets: {{n: {{null: {{latency: {{mean: {mean}, shape: exponential}}}}}}}}
initiators: {{count: {initiators}}}
steps:
  - name: load
    target: n
    workload: {{block: 4KiB, read: 70%, size: 1GiB{rate}}}
    load: {load}
    measure: {{warmup: 2s, window: {window}s}}
"""


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Fleet:
    def __init__(self, place, agents):
        self.place, self.runs = place, os.path.join(place, "runs")
        self.address = "unix:" + os.path.join(place, "s", "control.sock")
        self.serve = subprocess.Popen([os.path.join(BIN, "muster"), "serve", "--listen", self.address, "--runs", self.runs,
                                       "--log-file", os.path.join(place, "log")], stderr=subprocess.PIPE, text=True)
        self.serve.stderr.readline()
        self.agents = [subprocess.Popen([os.path.join(BIN, "muster-agent"), "--controller", self.address, "--id", f"a{i}"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(agents)]
        self.wait(lambda: len(json.loads(self.ask("agents", "--json"))["agents"]) == agents, "agents")

    def ask(self, *args):
        done = subprocess.run([os.path.join(BIN, "muster"), *args, "--controller", self.address], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"muster {' '.join(args)}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout

    @staticmethod
    def wait(condition, what, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                sys.exit(f"no {what} within {seconds} s")
            time.sleep(0.1)

    def state(self, run):
        return next(r for r in json.loads(self.ask("status", "--json"))["runs"] if r["id"] == run)

    def run(self, window, measure_cpu=False, **kwargs):
        """The path of the run file, and CPUs that the controller used over the window less a second at each end."""
        path = os.path.join(self.place, "campaign.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(CAMPAIGN.format(window=window, **kwargs))
        run = self.ask("run", path, "--detach", "--keep-raw", "--agents", str(len(self.agents))).strip()
        share = None
        if measure_cpu:
            self.wait(lambda: self.state(run)["iops"] > 0, "load")
            time.sleep(2)  # warm-up, and the questions above
            before, began = cpu_seconds(self.serve.pid), time.monotonic()
            time.sleep(window - 2)
            share = (cpu_seconds(self.serve.pid) - before) / (time.monotonic() - began)
        self.wait(lambda: self.state(run)["state"] == "ended", "end of the run", window + 120)
        if self.state(run)["outcome"] != "complete":
            sys.exit(f"the run ended {self.state(run)}")
        return os.path.join(self.runs, run, "run.db"), share

    def end(self):
        for process in (*self.agents, self.serve):
            process.kill()
            process.wait()


def raw_bytes(path, intervals, initiators):
    """Bytes of the raw reports of the measure phase, an initiator and interval."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        (size,) = db.execute("SELECT sum(length(bytes)) FROM raw WHERE phase = (SELECT max(phase) FROM raw)").fetchone()
    return size / intervals / initiators


def kept_bytes(path):
    """What stays of the intervals: the figures for ever, and the counts that `retention` drops."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        (ever,) = db.execute("SELECT sum(length(fleet) + length(moments)) FROM intervals").fetchone()
        (counts,) = db.execute("SELECT sum(length(counts)) FROM interval_counts").fetchone()
    return ever, counts or 0


@contextlib.contextmanager
def fleet(agents):
    place = tempfile.mkdtemp(prefix="muster-bench-", dir="/var/tmp")
    it = None
    try:
        it = Fleet(place, agents)
        yield it
    finally:
        if it:
            it.end()
        shutil.rmtree(place, ignore_errors=True)


def main():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "?")
    print(f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}; {options.agents} agents on one machine, intervals of 1 s, two kinds")
    with fleet(1) as one:
        for what, aim, load, rate in (("closed loop", 8, "1T16Q", ""), ("open loop", 24, "1T1Q", ", rate: 60k/s, pacing: poisson")):
            path, _ = one.run(8, name="bytes", mean="533us", initiators=2, load=load, rate=rate)
            size = raw_bytes(path, 10, 2)
            print(f"report, {what}, about 30 k operations an initiator and interval: {size / 1024:.2f} KiB (aim <= {aim})", flush=True)
    with fleet(options.agents) as many:
        for what, mean, load, rate in (("500 operations a second", "1600us", "1T1Q", ", rate: 500/s, rate_per: initiator, pacing: poisson"),
                                       ("about 10 k operations a second", "1600us", "1T16Q", "")):
            path, share = many.run(options.seconds, measure_cpu=True, name="fleet", mean=mean, initiators=options.agents, load=load,
                                   rate=rate)
            print(f"each agent {what}", flush=True)
            print(f"  controller: {100 * share:.2f} % of a core over {options.seconds - 2} s (aim 2 %)", flush=True)
            cells = options.agents * (options.seconds + 2)
            print(f"  report: {raw_bytes(path, options.seconds + 2, options.agents) / 1024:.2f} KiB an initiator and interval", flush=True)
            ever, counts = (size / cells for size in kept_bytes(path))
            cells_3h = options.agents * 3 * 3600
            ever_3h, counts_3h = ever * cells_3h, min(counts * cells_3h, RETENTION)
            print(f"  store: {ever:.0f} bytes for ever and {counts:.0f} that retention drops beyond 2 GiB, an initiator and interval; "
                  f"{options.agents} agents and 3 h: {ever_3h / 1e6:.0f} + {counts_3h / 1e6:.0f} MB (aim 300 .. 700 in all)", flush=True)


main()
