"""Agents that are cut off: network namespaces joined by veth, the link set down in the middle of a step."""
import contextlib
import os
import subprocess
import time

from harness import SOURCE, main, read_events, finish, wait_for
from link_test import check
from loss_test import measuring
from netns import Net
from serve_test import error_code, workers_of
from serving import Serving

CAMPAIGN = """
name: cut
targets: {cal: {null: {latency: {mean: 1ms}}}}
initiators: {count: 3}
on_agent_loss: %s
op_timeout: %s
steps:
  - name: one
    target: cal
    workload: {size: 1GiB}
    load: 1T2Q
    measure: {warmup: 1s, window: %s}
"""
HOSTS = ("h1", "h2", "h3")


@contextlib.contextmanager
def fleet(place, lease):
    """A controller in the hub, over mutual TLS, and an agent on each host; who asks it uses its Unix socket."""
    certs = os.path.join(place.path, "certs")
    made = subprocess.run([os.path.join(SOURCE, "deploy", "make-certs.sh"), certs, *[w for h in HOSTS for w in ("--agent", h)]],
                          capture_output=True, text=True)
    assert made.returncode == 0, made

    def files(name):
        at = lambda file: os.path.join(certs, file)
        return ["--ca", at("ca.crt"), "--cert", at(name + ".crt"), "--key", at(name + ".key")]
    with Net(*HOSTS) as net:
        it = Serving(place)
        try:
            it.start("--listen", "0.0.0.0:0", *files("controller"), "--lease", lease, prefix=net.inside("hub"))
            port = it.tcp[0].rsplit(":", 1)[1]
            for host in HOSTS:
                it.agent(host, *files("agent-" + host), controller=f"{net.address[host]}:{port}", prefix=net.inside(host))
            it.wait_for_agents(*HOSTS)
            yield it, net
        finally:
            it.end()


def test_a_cut_shorter_than_the_lease_costs_nothing(place):
    with fleet(place, "16s") as (it, net):
        process = it.begin("run", place.campaign(CAMPAIGN % ("abort", "30s", "18s")), "--json")
        read_events(process, measuring(0))
        # Half a lease without an answer makes a link a broken one: h1 dials anew, h2's connection outlives its cut.
        cut = time.monotonic()
        net.link("h1", "down")
        net.link("h2", "down")
        wait_for(lambda: time.monotonic() - cut > 1.5, 20, "the end of the short cut")
        net.link("h2", "up")

        # A host that is cut off cannot end its connection: the controller hears nothing.
        there = wait_for(lambda: (lambda t: t if t["h1"]["link"] != "up" else None)(it.there()), 14, "a link that is not up")
        assert there["h1"]["link"] == "silent" and 8e9 < there["h1"]["link_quiet_ns"] <= 16e9, there
        assert 0 < there["h1"]["lease_left_ns"] < 8e9, there
        assert "silent for" in it.ask("agents").out
        assert there["h2"]["link"] == there["h3"]["link"] == "up", there
        assert workers_of(it.agents["h1"].pid), "the load goes on"
        wait_for(lambda: time.monotonic() - cut > 8.5, 20, "the end of the long cut")
        net.link("h1", "up")
        done = finish(process, 90)
        assert done.code == 0, done
        step = done.steps()[0]
        assert done.result()["outcome"] == "complete" and step["outcome"] == "VALID", step
        for name in ("sums", "coverage", "intervals", "errors"):
            assert check(step, name)["outcome"] == "pass", step["checks"]
        links = check(step, "links")
        assert links["outcome"] == "warn" and "h1: 1 reconnects" in links["evidence"], links
        assert "h3" not in links["evidence"], links
        assert it.there()["h1"]["link"] == "up"


def test_a_cut_longer_than_the_lease_ends_the_load_and_the_run(place):
    with fleet(place, "4s") as (it, net):
        process = it.begin("run", place.campaign(CAMPAIGN % ("abort", "1s", "300s")), "--json")
        read_events(process, measuring(0, 3))
        began = time.monotonic()
        net.link("h1", "down")
        # A dead worker thread issues nothing. Lease 4 s, a second for its end, then what is under way (op timeout 1 s).
        wait_for(lambda: not workers_of(it.agents["h1"].pid), 4 + 1 + 1 + 5, "the end of the load without a lease")
        assert time.monotonic() - began > 2, "the load ended with the link"
        done = finish(process, 60)
        assert time.monotonic() - began < 40, done
        assert done.code == 3 and error_code(done) == "LEASE_ENDED", done
        result = done.result()
        assert result["outcome"] == "aborted" and "h1" in result["error"]["place"], result
        step = result["run"]["steps"][0]
        assert step["outcome"] == "INVALID" and step["fleet"]["kinds"][0]["completed"] > 0, step
        coverage = check(step, "coverage")
        assert coverage["outcome"] == "fail" and "h1" in coverage["evidence"] and "h2" not in coverage["evidence"], coverage
        assert "h1" not in it.there()
        # Back on the net it is an agent like any other.
        net.link("h1", "up")
        it.wait_for_agents(*HOSTS)
        again = it.ask("run", place.campaign(CAMPAIGN % ("abort", "1s", "2s")), "--json")
        assert again.code == 0 and again.steps()[0]["outcome"] == "VALID", again
        assert check(again.steps()[0], "links")["outcome"] == "pass", again


def test_a_cut_longer_than_the_lease_leaves_the_others_with_the_step(place):
    with fleet(place, "3s") as (it, net):
        # Long enough that the lease is over before the step is, also when all of this is slow.
        process = it.begin("run", place.campaign(CAMPAIGN % ("continue", "1s", "9s")), "--json")
        read_events(process, measuring(0))
        began = time.monotonic()
        net.link("h2", "down")
        done = finish(process, 90)
        assert time.monotonic() - began < 60, done
        step = done.steps()[0]
        assert done.code == 0 and step["outcome"] == "VALID", (step["checks"], step["errors"], done.result()["outcome"])
        assert step["left_out_agents"] == ["h2"] and step["window_restarts"] == 1, step["checks"]
        for name in ("sums", "intervals", "errors"):
            assert check(step, name)["outcome"] == "pass", step["checks"]
        coverage = check(step, "coverage")
        assert coverage["outcome"] == "warn" and "h2" in coverage["evidence"], coverage
        assert "3 initiators asked, 2 heard" in coverage["evidence"], coverage
        assert len(step["initiators"]) == 2 or sum(1 for i in step["initiators"] if i["kinds"][0]["completed"]) == 2, step
        assert not workers_of(it.agents["h2"].pid)
        net.link("h2", "up")
        it.wait_for_agents(*HOSTS)


def test_an_idle_agent_that_is_cut_off_is_shown_so(place):
    with fleet(place, "6s") as (it, net):
        net.link("h1", "down")
        seen = []

        def gone():
            there = it.there()
            assert there["h2"]["link"] == there["h3"]["link"] == "up", there
            seen.append(there.get("h1"))
            return not seen[-1]
        wait_for(gone, 30, "the end of the lease")
        seen.pop()
        links = [agent["link"] for agent in seen]
        assert links == sorted(links, reverse=True) and set(links) == {"up", "silent"}, links
        left = [agent["lease_left_ns"] for agent in seen if agent["link"] == "silent"]
        assert left == sorted(left, reverse=True) and left[-1] < left[0] <= 3e9, left
        assert all(agent["link_quiet_ns"] == 0 for agent in seen if agent["link"] == "up"), seen
        assert "h1" not in it.ask("agents").out


if __name__ == "__main__":
    main(globals())
