"""iSER over software RDMA (rdma_rxe): initiators with `transport: iser` on the kernel's target."""
import contextlib
import os

from harness import check_run, finish, main, read_events, run, start
from kernel import IQN, Lio, modprobe, put, ram_disks, refused
from tgtd import MIB, campaign, check_sums, disk as disk_of, kind

ADDRESS, SIZE = "10.9.0.1", 64 * MIB
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


def started(place, text):
    process = start("run", place.campaign(text), "--runs", place.runs, "--json")
    try:
        read_events(process, lambda e: e["event"] == "live" and e["interval"] >= 1, 240)  # pinning 64 MiB a login is slow here
    except BaseException:
        process.kill()
        raise
    return process


def test_campaign_over_iser_is_valid_and_writes_what_it_should(place):
    image = os.path.join(place.path, "disk.img")
    with open(image, "wb") as f:
        f.truncate(SIZE)
    with rdma(), IserLio() as lio:
        lio.target("disk", lio.file("file", image, SIZE), iser=True)
        for block, read, depth, more in (("4KiB", "70%", 4, ", precondition: {fill: 1x}"), ("64KiB", "50%", 4, ""), ("1MiB", "50%", 2, "")):
            text = campaign(disk(lio), STEP.format(block=block, read=read, depth=depth) + more, initiators=2)
            done = run(place, place.campaign(text), "--local", "2", timeout=240)
            assert done.code == 0, done
            (step,) = done.steps()
            assert step["outcome"] == "VALID", step["checks"]
            check_sums(step)
            assert all(kind(i)["completed"] > 0 for i in step["initiators"]), step["initiators"]
            facts = {f["name"].split("backend ")[-1]: f["value"] for f in step["facts"]}
            told = {k: facts[k] for k in ("transport", "HeaderDigest", "ImmediateData", "InitialR2T", "MaxBurstLength", "LUN bytes a command")}
            print(f"        {block}: {kind(step['fleet'])['completed']} operations, {told}, "
                  f"{[c['counters'] for c in step['connections']]}", flush=True)
            assert told["transport"] == "iser" and told["ImmediateData"] == "No" and told["HeaderDigest"] == "None", told
            # Each block has content of its own: nothing was taken from a buffer of another command.
            with open(image, "rb") as f:
                assert f.read(MIB).startswith(b"MUSTER-LABEL")
                blocks = [f.read(4096) for _ in range(16 * MIB // 4096)]
            assert bytes(4096) not in blocks and len(set(blocks)) == len(blocks), (block, len(set(blocks)))
            lio.logged_out("disk")


def test_target_that_goes_and_comes_back(place):
    with rdma(), ram_disks(1) as (device,), IserLio() as lio:
        group = lio.target("disk", lio.block("ram", device), iser=True)
        text = campaign(disk(lio), STEP.format(block="4KiB", read="50%", depth=4).replace("2s", "8s"), extra="op_timeout: 4s")
        process = started(place, text)
        put(f"{group}/enable", 0)
        put(f"{group}/enable", 1)
        done = finish(process, 240)
        (step,) = done.steps()
        (connection,) = step["connections"]
        errors = [(e["kind"], e["class"], e["native_code"], e["count"]) for e in step["errors"]]
        print(f"        {step['outcome']}, {errors}, {connection}", flush=True)
        # What was on the way has failed, if something was; found by the disconnect, not by the timeout.
        failed = sum(e["count"] for e in step["errors"])
        assert failed <= 4 and all(e["native_code"] == 104 for e in step["errors"]), step["errors"]
        assert step["outcome"] == ("INVALID" if failed else "VALID") and done.code == (1 if failed else 0), done
        counters = connection["counters"]
        assert counters["connections lost"] == 1 and counters["reconnects"] == 1 and connection["down_ns"] > 0, connection
        check_sums(step)


def test_what_is_refused_over_iser(place):
    with ram_disks(1) as (device,):
        refused(place, disk(IserLio), "ISCSI_NO_RDMA", ADDRESS)
        with rdma(), IserLio() as lio:
            store = lio.block("ram", device)
            lio.target("disk", store, iser=True)
            lio.target("tcp", store, portal=f"{ADDRESS}:3261")
            lio.target("closed", store, iser=True, initiators=[f"{IQN}:somebody-else"])
            refused(place, disk(lio, name="closed"), "ISCSI_LOGIN_ACL", f"{IQN}:closed")
            refused(place, disk(lio, name="nobody"), "ISCSI_NO_TARGET", f"{IQN}:nobody")
            refused(place, disk(lio, lun="7"), "ISCSI_NO_LUN", "LUN 7")
            # A portal that serves TCP only, and an address nobody has.
            for portal in (f"{ADDRESS}:3261", "10.9.0.99:3260"):
                refused(place, disk(lio).replace(lio.portal, portal), "ISCSI_CONNECT", portal)


if __name__ == "__main__":
    main(globals())
