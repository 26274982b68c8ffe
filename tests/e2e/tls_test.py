"""A fleet over TCP with certificates: who may what, as the programs say it."""
import contextlib
import os
import signal
import socket
import subprocess

from harness import AGENT, MUSTER, SOURCE, finish, main, muster, wait_for

CAMPAIGN = """
name: tls
targets: {cal: {null: {latency: {mean: 1ms}}}}
initiators: {count: 2}
steps:
  - name: one
    target: cal
    workload: {size: 1GiB}
    load: 1T2Q
    measure: {warmup: 1s, window: 2s}
"""


class Fleet:
    def __init__(self, place, insecure):
        self.place, self.insecure = place, insecure
        self.certs = os.path.join(place.path, "certs")
        made = subprocess.run([os.path.join(SOURCE, "deploy", "make-certs.sh"), self.certs, "--agent", "a1", "--agent", "a2",
                               "--user", "alice", "--user", "bob:viewer"], capture_output=True, text=True)
        assert made.returncode == 0, made
        self.log = os.path.join(place.path, "serve.log")
        self.serve = subprocess.Popen([MUSTER, "serve", "--listen", "127.0.0.1:0", "--runs", place.runs, "--log-file", self.log,
                                       *self.files("controller")], stderr=subprocess.PIPE, text=True)
        line = self.serve.stderr.readline()
        assert line.startswith("muster: listening on 127.0.0.1:"), line + self.serve.stderr.read()
        self.address = line.split()[-1]
        self.agents = []

    def files(self, name):
        if self.insecure:
            return ["--insecure-tcp"]
        at = lambda file: os.path.join(self.certs, file)
        return ["--ca", at("ca.crt"), "--cert", at(name + ".crt"), "--key", at(name + ".key")]

    def agent(self, name, *args, files=None):
        log = open(os.path.join(self.place.path, name + ".log"), "w", encoding="utf-8")
        with log:
            process = subprocess.Popen([AGENT, "--controller", self.address, *(files or self.files("agent-" + name)), *args],
                                       stdout=log, stderr=log)
        self.agents.append(process)
        return process

    def ask(self, *args, user="user-alice"):
        return muster(*args, "--controller", self.address, *self.files(user))

    def there(self):
        done = self.ask("agents", "--json")
        assert done.code == 0, done
        return {a["id"] for a in done.events()[0]["agents"]}

    def says(self, text):
        def read():
            with open(self.log, encoding="utf-8") as f:
                return text in f.read()
        return wait_for(read, 30, f"{text} in the controller's log")


@contextlib.contextmanager
def fleet(place, insecure=False):
    it = Fleet(place, insecure)
    try:
        yield it
    finally:
        for process in [*it.agents, it.serve]:
            process.send_signal(signal.SIGTERM)
        for process in [*it.agents, it.serve]:
            try:
                process.communicate(timeout=40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def test_a_run_over_mutual_tls(place):
    with fleet(place) as it:
        it.agent("a1")
        it.agent("a2")
        wait_for(lambda: it.there() == {"a1", "a2"}, 30, "two agents")
        done = it.ask("run", place.campaign(CAMPAIGN), "--json")
        assert done.code == 0, done
        step = done.steps()[0]
        assert step["outcome"] == "VALID" and "insecure_tcp" not in {c["name"] for c in step["checks"]}, step
        # The environment names the files as well.
        names = dict(zip(("MUSTER_CA", "MUSTER_CERT", "MUSTER_KEY"), it.files("user-alice")[1::2]))
        named = muster("agents", env={**os.environ, **names, "MUSTER_CONTROLLER": it.address})
        assert named.code == 0 and "a1" in named.out, named
        # A viewer may look and nothing else.
        assert it.ask("status", user="user-bob").code == 0
        refused = it.ask("run", place.campaign(CAMPAIGN), user="user-bob")
        assert refused.code == 3 and "ROLE_MISSING" in refused.err, refused
        it.says("viewer bob may not")


def test_strangers_are_refused_with_a_reason_and_the_run_goes_on(place):
    with fleet(place) as it:
        it.agent("a1")
        wait_for(lambda: it.there() == {"a1"}, 30, "an agent")
        run = subprocess.Popen([MUSTER, "run", place.campaign(CAMPAIGN), "--json", "--controller", it.address,
                                *it.files("user-alice")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        host, port = it.address.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            plain.settimeout(30)
            with contextlib.suppress(ConnectionResetError):
                while plain.recv(4096):
                    pass
        it.says("refused: ")
        # The agent of another name, an agent as a user, no certificate of ours.
        other = it.agent("a1", "--id", "a9")
        assert other.wait(30) == 2
        as_user = it.ask("agents", user="agent-a1")
        assert as_user.code == 2 and "TLS_CERT_NAME" in as_user.err, as_user
        nothing = muster("agents", "--controller", it.address)
        assert nothing.code == 2 and "TLS_FILES_INCOMPLETE" in nothing.err and "make-certs.sh" in nothing.err, nothing
        done = finish(run)
        assert done.code == 0 and done.steps()[0]["outcome"] == "VALID", done


def test_insecure_tcp_runs_and_is_warned_of_everywhere(place):
    with fleet(place, insecure=True) as it:
        it.agent("a1", "--id", "a1")
        wait_for(lambda: it.there() == {"a1"}, 30, "an agent")
        done = it.ask("run", place.campaign(CAMPAIGN), "--json")
        assert done.code == 0, done
        checks = {c["name"]: c for c in done.steps()[0]["checks"]}
        assert checks["insecure_tcp"]["outcome"] == "warn" and "a1" in checks["insecure_tcp"]["evidence"], checks
        it.says("--insecure-tcp")


def test_serve_names_the_file_that_cannot_work(place):
    for arguments, code in ((["--listen", "127.0.0.1:0"], "TLS_FILES_INCOMPLETE"), (["--ca", "x"], "USAGE"),
                            (["--listen", "unix:relative"], "ENDPOINT_INVALID"),
                            (["--listen", "127.0.0.1:0", "--insecure-tcp", "--ca", "x"], "USAGE"),
                            (["--listen", "127.0.0.1:0", "--ca", "/no", "--cert", "/no", "--key", "/no"], "SYS_ENOENT")):
        done = muster("serve", "--runs", place.runs, *arguments)
        assert done.code in (2, 3) and code in done.err, (arguments, done)


if __name__ == "__main__":
    main(globals())
