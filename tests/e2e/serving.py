"""A long-running controller and its agents, as real processes of one test."""
import contextlib
import json
import os
import signal
import subprocess

from harness import AGENT, MUSTER, muster, start, wait_for


class Serving:
    def __init__(self, place):
        self.place = place
        self.address = "unix:" + os.path.join(place.path, "s", "control.sock")
        self.log = os.path.join(place.path, "serve.log")
        self.serve = None
        self.tcp = []  # HOST:PORT of each further --listen
        self.agents = {}

    def start(self, *args, prefix=()):
        """Starts the controller, by way of the command `prefix`, and waits for its lines that it listens."""
        self.serve = subprocess.Popen(
            [*prefix, MUSTER, "serve", "--listen", self.address, "--runs", self.place.runs, "--log-file", self.log, *args],
            stderr=subprocess.PIPE, text=True)
        line = self.serve.stderr.readline()
        assert line == f"muster: listening on {self.address}\n", line + self.serve.stderr.read()
        self.tcp = [self.serve.stderr.readline().split()[-1] for _ in range(args.count("--listen"))]

    def agent(self, name, *args, controller=None, prefix=()):
        log = open(os.path.join(self.place.path, f"agent-{name[:20]}.log"), "w")
        with log:
            self.agents[name] = subprocess.Popen([*prefix, AGENT, "--controller", controller or self.address, "--id", name,
                                                  *args], stdout=log, stderr=log)
        return self.agents[name]

    def agent_log(self, name):
        with open(os.path.join(self.place.path, f"agent-{name[:20]}.log")) as f:
            return f.read()

    def log_text(self):
        with open(self.log) as f:
            return f.read()

    def ask(self, *args, **kwargs):
        """One verb against this controller."""
        return muster(*args, "--controller", self.address, **kwargs)

    def begin(self, *args, **kwargs):
        return start(*args, "--controller", self.address, **kwargs)

    def there(self):
        done = self.ask("agents", "--json")
        assert done.code == 0, done
        return {a["id"]: a for a in json.loads(done.out)["agents"]}

    def wait_for_agents(self, *names):
        wait_for(lambda: set(names) <= set(self.there()), 30, f"agents {names}")

    def runs(self):
        done = self.ask("status", "--json")
        assert done.code == 0, done
        return {r["id"]: r for r in json.loads(done.out)["runs"]}

    def submit(self, campaign, *args):
        done = self.ask("run", campaign, "--detach", *args)
        assert done.code == 0, done
        return done.out.strip()

    def wait_for_run(self, run, condition, timeout=60):
        return wait_for(lambda: (lambda r: r if condition(r) else None)(self.runs()[run]), timeout, f"state of {run}")

    def measuring(self, run):
        return self.wait_for_run(run, lambda r: r["phase"] == "measure" and r["iops"] > 0)

    def stop(self, timeout=60):
        self.serve.send_signal(signal.SIGTERM)
        _, err = self.serve.communicate(timeout=timeout)
        code, self.serve = self.serve.returncode, None
        return code, err

    def kill(self):
        self.serve.kill()
        self.serve.communicate()
        self.serve = None

    def end(self):
        for process in [*self.agents.values(), *([self.serve] if self.serve else [])]:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            if process.stderr:
                process.stderr.close()


@contextlib.contextmanager
def serving(place, *args, prefix=()):
    it = Serving(place)
    try:
        it.start(*args, prefix=prefix)
        yield it
    finally:
        it.end()

