"""iSER over software RDMA (rdma_rxe): initiators with `transport: iser` on the kernel's target."""
import contextlib
import json
import subprocess

from harness import check_run, main, muster, run
from kernel import IQN, Lio, modprobe, ram_disks
from tgtd import campaign, check_sums, disk as disk_of, kind, outcomes

ADDRESS = "10.9.0.1"
STEP = "workload: {{block: {block}, pattern: random, read: {read}, size: 16MiB}}, load: 1T{depth}Q, measure: {{warmup: 0s, window: 2s}}"


def disk(lio, lun="0", name="disk", more=""):
    return disk_of(lio, lun, name, ", transport: iser" + more).replace("iqn.2026-11.net.muster.test", IQN)


@contextlib.contextmanager
def rdma():
    """An RDMA device over an Ethernet one; both ends talk over the host's own address."""
    modprobe("veth", "rdma_rxe", "ib_uverbs", "rdma_ucm", "ib_isert")
    check_run("ip", "link", "add", "lab0", "mtu", "4200", "type", "veth", "peer", "name", "lab1", "mtu", "4200")
    try:
        check_run("ip", "addr", "add", f"{ADDRESS}/24", "dev", "lab0")
        check_run("ip", "link", "set", "lab0", "up")
        check_run("ip", "link", "set", "lab1", "up")
        check_run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "lab0")
        try:
            yield
        finally:
            check_run("rdma", "link", "delete", "rxe0")
    finally:
        check_run("ip", "link", "delete", "lab0")


class IserLio(Lio):
    portal = f"{ADDRESS}:3260"


def test_campaign_over_iser(place):
    with rdma(), ram_disks(1) as (device,), IserLio() as lio:
        lio.target("disk", lio.block("ram", device), iser=True)
        print(subprocess.run("rdma link; rdma res show cm_id; ls /dev/infiniband", shell=True, capture_output=True, text=True))
        probed = muster("targets", "probe", f"iscsi://{lio.portal}/{IQN}:disk")
        print(probed)
        for block, read, depth in (("4KiB", "70%", 4), ("64KiB", "50%", 4), ("1MiB", "50%", 2)):
            done = run(place, place.campaign(campaign(disk(lio), STEP.format(block=block, read=read, depth=depth), initiators=2)), "--local", "2")
            print(done.code, done.err[-1500:], json.dumps(done.result().get("error")))
            for step in done.steps():
                print(block, step["outcome"], outcomes(step), [f for f in step["facts"]][:60], step.get("connections"), step.get("errors"))
            print(subprocess.run("dmesg | tail -5", shell=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main(globals())
