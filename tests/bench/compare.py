"""Interleaved comparisons: muster (the real programs) against fio 3.33, a bare ring loop, one pread at a time.

Every pair runs A then B on the same file within seconds; the figure is the median of the paired ratios, with its
quartiles. CPU is that of the whole process (of muster: the agent, all its threads). Absolute figures are printed with
the machine and are no criterion.
"""
import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bin", required=True)
parser.add_argument("--pairs", type=int, default=7)
parser.add_argument("--seconds", type=int, default=3)
parser.add_argument("--only", default="", help="run only the comparisons whose name matches this regular expression")
parser.add_argument("--dir", default="/var/tmp", help="where the 1 GiB file lies: a real file system")
options = parser.parse_args()
BIN = os.path.abspath(options.bin)
LARGE, SMALL = 1 << 30, 64 << 20  # beyond the CPU caches; nearly inside them, where the generator shows rather than the copy


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def call(*command):
    before = cpu_of_children()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout, cpu_of_children() - before


class Figures:
    def __init__(self, iops, cpu_per_second, mean_ns):
        self.iops, self.mean_ns = iops, mean_ns
        self.per_cpu = iops / cpu_per_second


class Bench:
    """One file of one size, laid out and filled by muster, read by everybody."""

    def __init__(self, place, size):
        self.place, self.size = place, size
        self.data = os.path.join(place, f"data{size}")
        self.file = self.fio_start = None
        self.muster(32, False, fill="1x")
        self.file = next(os.path.join(d, f) for d, _, files in os.walk(self.data) for f in files if f.startswith("data"))

    def campaign(self, name, steps, direct):
        path = os.path.join(self.place, f"{name}.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"name: bench\ntargets: {{f: {{file: {{dir: {self.data}, keep: true, direct: {str(direct).lower()}}}}}}}\n"
                    f"steps:\n{steps}")
        return path

    def muster(self, depth, direct, fill="0x"):
        campaign = self.campaign("bench", f"""
  - name: read
    target: f
    workload: {{block: 4KiB, pattern: random, read: 100%, size: {self.size}B}}
    load: 1T{depth}Q
    precondition: {{fill: {fill}}}
    measure: {{warmup: 1s, window: {options.seconds}s}}
""", direct)
        out, _ = call(os.path.join(BIN, "muster"), "run", campaign, "--runs", os.path.join(self.place, "runs"), "--json")
        step = next(json.loads(line) for line in out.splitlines() if '"event":"result"' in line)["run"]["steps"][0]
        every = next(k for k in step["fleet"]["kinds"] if k["kind"] == "all")
        return Figures(every["iops"], step["cpu_share"], every["response"]["mean_ns"])

    def fio(self, depth, direct, batch=1):
        # Its whole process, like muster's agent, less what a start for one operation costs: no ramp, so that CPU and
        # operations are of the same time.
        if self.fio_start is None:
            self.fio_start = statistics.median(self.run_fio(1, direct, 1, "--number_ios=1", "--runtime=1")[1] for _ in range(5))
        job, cpu = self.run_fio(depth, direct, batch, "--time_based", f"--runtime={options.seconds + 1}")
        read = job["read"]
        return Figures(read["iops"], (cpu - self.fio_start) * read["iops"] / read["total_ios"], read["lat_ns"]["mean"])

    def run_fio(self, depth, direct, batch, *more):
        args = ["fio", "--name=b", f"--filename={self.file}", "--rw=randread", "--bs=4k", f"--iodepth={depth}", f"--size={self.size}",
                "--ioengine=io_uring", "--fixedbufs", "--registerfiles", "--nonvectored=1", "--norandommap", "--invalidate=0",
                "--thread", f"--direct={int(direct)}", "--output-format=json", "--group_reporting", *more]
        if batch > 1:
            args += [f"--iodepth_batch_submit={batch}", "--iodepth_batch_complete_min=1", f"--iodepth_batch_complete_max={batch}"]
        out, cpu = call(*args)
        return json.loads(out[out.index("{"):])["jobs"][0], cpu

    def loop(self, program, depth, direct, *more):
        args = [os.path.join(BIN, program), "--file", self.file, "--size", str(self.size), "--qd", str(depth), "--seconds", str(options.seconds)]
        out, cpu = call(*args, *(["--direct"] if direct else []), *more)
        found = dict(re.findall(r"([a-zA-Z_0-9.]+)[=: ]+([0-9.]+)", out))
        return Figures(float(found["iops"]), float(found["iops"]) / float(found["iops_per_cpu_s"]), float(found["mean_ns"]))


def compare(name, aim, a, b, figure, at_most=False):
    """Prints the median of the paired ratios of figure(a) to figure(b)."""
    if not re.search(options.only, name):
        return
    ratios, firsts, seconds = [], [], []
    for pair in range(options.pairs):
        # Every other pair runs in the other order: neither side always comes after the other.
        if pair % 2 == 0:
            first, second = a(), b()
        else:
            second, first = b(), a()
        firsts.append(figure(first))
        seconds.append(figure(second))
        ratios.append(firsts[-1] / seconds[-1])
    ratios.sort()
    median = statistics.median(ratios)
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    met = median <= aim if at_most else median >= aim
    print(f"| {name} | {median:.2f} | {low:.2f} .. {high:.2f} | {'<=' if at_most else '>='} {aim:.2f} | {'yes' if met else 'NO'} "
          f"| {statistics.median(firsts):,.0f} / {statistics.median(seconds):,.0f} |", flush=True)


def start_skew(place, starts=24):
    """First-I/O skew of four paced local agents over many starts, in fleet time."""
    if not re.search(options.only, "start skew"):
        return
    path = os.path.join(place, "skew.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write("name: skew\ntargets: {t: {null: {latency: {mean: 100us}}}}\ninitiators: {count: 4}\nsteps:\n")
        for i in range(starts):
            f.write(f"  - {{name: s{i}, target: t, workload: {{size: 1MiB, pacing: fixed, rate: 40k/s}}, measure: {{warmup: 1s, window: 1s}}}}\n")
    out, _ = call(os.path.join(BIN, "muster"), "run", path, "--local", "4", "--runs", os.path.join(place, "runs"), "--json")
    steps = next(json.loads(line) for line in out.splitlines() if '"event":"result"' in line)["run"]["steps"]
    skews = sorted(s["start_skew_ns"] for s in steps)
    errors = [s["clock_error_ns"] for s in steps]
    # Nearest rank: with 24 starts the p99 is the largest.
    p99 = skews[max(1, -(-99 * len(skews) // 100)) - 1]
    print(f"\nstart skew, 4 paced local agents, {len(skews)} starts: p50 {statistics.median(skews) / 1e3:.0f} us, p99 {p99 / 1e3:.0f} us "
          f"(aim 1000), clock error at most {max(errors) / 1e3:.1f} us", flush=True)


def machine():
    model = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown CPU")
    fs = subprocess.run(["df", "--output=fstype", options.dir], capture_output=True, text=True).stdout.split()[-1]
    return f"{model}, {os.cpu_count()} CPUs, Linux {os.uname().release}, {fs}; {options.pairs} pairs of {options.seconds} s"


def main():
    place = tempfile.mkdtemp(prefix="muster-bench-", dir=options.dir)
    try:
        small, large = Bench(place, SMALL), Bench(place, LARGE)
        print(machine())
        print("CPU of whole processes: muster's agent over the window; fio from start to end less its start-up.")
        print("| 4K random read | median ratio | quartiles | aim | met | muster / other |\n|---|---|---|---|---|---|", flush=True)
        per_cpu = lambda f: f.per_cpu
        mean = lambda f: f.mean_ns
        places = ((small, False, "64 MiB in the page cache", 2.0), (large, False, "1 GiB in the page cache", 2.0), (large, True, "1 GiB O_DIRECT", 1.8))
        for bench, direct, where, aim in places:
            compare(f"IOPS per CPU-second, {where}, QD 32, against fio", aim, lambda: bench.muster(32, direct), lambda: bench.fio(32, direct), per_cpu)
            if not direct:
                compare(f"IOPS per CPU-second, {where}, QD 32, against fio with batches of 16", 1.05, lambda: bench.muster(32, False), lambda: bench.fio(32, False, 16), per_cpu)
            compare(f"IOPS per CPU-second, {where}, QD 32, against a bare ring loop", 0.85, lambda: bench.muster(32, direct), lambda: bench.loop("bare_ring", 32, direct), per_cpu)
        for bench, direct, where, _ in places[1:]:
            compare(f"mean latency ns, {where}, QD 1, against fio", 1.03, lambda: bench.muster(1, direct), lambda: bench.fio(1, direct), mean, at_most=True)
            compare(f"mean latency ns, {where}, QD 1, against one pread at a time", 1.25, lambda: bench.muster(1, direct), lambda: bench.loop("bare_ring", 1, direct, "--pread"), mean, at_most=True)
        start_skew(place)
        for program, what in (("pacer_bench", "pacer lateness p99, 100 k/s Poisson, against a bare spin loop (aim <= 1.2)"),
                              ("engine_bench", "null backend, QD 32 (aim 10 M ops/s on one core)"),
                              ("recorder_bench", "recorder (aim 15 ns an operation)")):
            if not re.search(options.only, what):
                continue
            args = {"pacer_bench": [], "engine_bench": ["--null", "--qd", "32", "--seconds", str(options.seconds)],
                    "recorder_bench": ["--benchmark_min_time=0.5"]}[program]
            print(f"\n{what}:\n" + call(os.path.join(BIN, program), *args)[0], flush=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


main()
