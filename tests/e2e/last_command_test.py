"""An agent without a lease issues nothing: the last SCSI command, stamped by a proxy before a real target."""
import contextlib
import os
import signal
import time

from harness import main, wait_for
from link_proxy import LinkProxy
from serve_test import workers_of
from serving import serving
from stamping import DATA_OUT, LOGIN, LOGOUT, NOP_OUT, SCSI_COMMAND, TASK_MANAGEMENT, Pdus, StampingProxy
from tgtd import Tgtd, campaign, disk

LEASE = 4
STEP = "workload: {%s, size: 16MiB, rate: 300/s, pacing: fixed, max_outstanding: 8}, measure: {warmup: 1s, window: 600s}"


class Rig:
    def __init__(self, place, it, link, proxy, target):
        self.place, self.it, self.link, self.proxy, self.target = place, it, link, proxy, target

    @property
    def agent(self):
        return self.it.agents["a1"]

    def begin(self, workload="read: 100%"):
        text = campaign(disk(self.proxy), STEP % workload, extra="op_timeout: 5s")
        run = self.it.submit(self.place.campaign(text))
        self.it.measuring(run)
        return run

    def idle(self):
        """The agent has ended its load: no worker thread is left."""
        wait_for(lambda: not workers_of(self.agent.pid), LEASE + 30, "the end of the load")

    def judge(self, answered, least):
        """`answered`: no Beat was answered after this. Commands went on for `least` seconds of the lease, and never beyond."""
        self.idle()
        last = self.proxy.last(SCSI_COMMAND) - answered
        print(f"        last command {last:.3f} s after the last Beat that was answered, lease {LEASE} s; PDUs: "
              + ", ".join(f"{name} {self.proxy.count(code)}" for name, code in
                          (("command", SCSI_COMMAND), ("data-out", DATA_OUT), ("NOP", NOP_OUT), ("login", LOGIN),
                           ("logout", LOGOUT), ("task management", TASK_MANAGEMENT))), flush=True)
        assert last <= LEASE + 1, f"a command {last} s after the last Beat"
        assert last >= least, f"the load ended {last} s after the cut already: the lease had not"
        # Nor later, when everything has been released.
        count = self.proxy.count(SCSI_COMMAND)
        wait_for(lambda: not any(self.target.sessions().values()), 30, "the end of the sessions at the target")
        assert self.proxy.count(SCSI_COMMAND) == count, "commands came after the load had ended"


@contextlib.contextmanager
def rig(place):
    with Tgtd(place) as target:
        target.lun(target.target())
        with StampingProxy(target.port) as proxy, serving(place, "--lease", f"{LEASE}s") as it:
            front = os.path.join(place.path, "front.sock")
            with LinkProxy(front, lambda: it.address[len("unix:"):]) as link:
                it.agent("a1", controller="unix:" + front)
                it.wait_for_agents("a1")
                yield Rig(place, it, link, proxy, target)


# A Beat comes at least every second (and four a lease), so the last that was answered before a cut is that old at most.
LEAST = LEASE - 1 - 1


def test_its_link_is_cut(place):
    with rig(place) as it:
        run = it.begin()
        it.link.cut(600)
        it.judge(time.monotonic(), LEAST)
        assert it.it.wait_for_run(run, lambda r: r["state"] == "ended")["outcome"] == "aborted"


def test_its_link_carries_nothing_and_nobody_is_told(place):
    with rig(place) as it:
        run = it.begin("read: 0%")
        it.link.mute()
        it.link.cut(600)  # nor can it dial anew
        it.judge(time.monotonic(), LEAST)
        assert it.it.wait_for_run(run, lambda r: r["state"] == "ended")["outcome"] == "aborted"


def test_it_is_stopped_beyond_its_lease_and_continued(place):
    with rig(place) as it:
        run = it.begin()
        it.agent.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            it.it.wait_for_run(run, lambda r: r["state"] == "ended")
            wait_for(lambda: time.monotonic() - stopped > LEASE + 1, 30, "the end of the lease")
        finally:
            it.agent.send_signal(signal.SIGCONT)
        it.idle()
        last = it.proxy.last(SCSI_COMMAND) - stopped
        print(f"        last command {last:.3f} s after it was stopped", flush=True)
        assert last <= 1, f"a command came {last} s after the agent was stopped: it was continued after its lease"
        wait_for(lambda: not any(it.target.sessions().values()), 30, "the end of the sessions at the target")
        assert it.proxy.last(SCSI_COMMAND) - stopped <= 1, "a command after its lease"


def test_its_controller_is_killed(place):
    with rig(place) as it:
        it.begin("read: 50%")
        it.it.kill()
        it.judge(time.monotonic(), LEAST)


def test_pdus_are_found_however_they_come(place):
    def pdu(opcode, data, ahs=0):
        head = bytes([opcode | 0x40, 0, 0, 0, ahs]) + len(data).to_bytes(3, "big") + bytes(40)
        return head + bytes(4 * ahs) + data + bytes(-len(data) % 4)
    stream = pdu(LOGIN, b"InitiatorName=x\0") + pdu(SCSI_COMMAND, b"") + pdu(DATA_OUT, bytes(4097), ahs=2) + pdu(NOP_OUT, b"\1")
    stream += pdu(LOGOUT, b"")
    for size in (1, 3, 47, 48, 49, 1000, len(stream)):
        pdus = Pdus()
        found = [code for at in range(0, len(stream), size) for code in pdus.take(stream[at:at + size])]
        assert found == [LOGIN, SCSI_COMMAND, DATA_OUT, NOP_OUT, LOGOUT], (size, found)


if __name__ == "__main__":
    main(globals())
