"""Faults that only the kernel's target makes: a session reinstated by another initiator, a reservation held by another."""
import json

from harness import finish, main, muster, read_events, run, start
from initiator import Initiator, REGISTER, RELEASE, RESERVE, WRITE_EXCLUSIVE
from kernel import IQN, Lio, NAME, ram_disks, refused
from tgtd import campaign, check_sums, disk as disk_of, kind

STEP = ("workload: {block: 4KiB, pattern: random, read: 50%, size: 8MiB}, load: 1T4Q, "
        "measure: {warmup: 1s, window: 6s}")


def disk(lio, lun="0", name="disk", more=""):
    return disk_of(lio, lun, name, more).replace("iqn.2026-11.net.muster.test", IQN)


def export(place):
    done = muster("results", "--runs", place.runs, "export", "last", "--format", "json")
    assert done.code == 0, done
    return json.loads(done.out)["steps"][0]["intervals"]


def errors_of(step):
    return [(e["kind"], e["class"], e["native_code"], e["count"]) for e in step["errors"]]


def check_counts(place, step, tried_again=0):
    """Every command went out for one operation that ended: nothing was sent twice behind the figures."""
    ended = sum(k["completed"] for row in export(place) for k in row["kinds"]) + sum(e["count"] for e in step["errors"])
    commands = sum(c["counters"]["commands"] for c in step["connections"])
    # What ended after the last interval is in none: at most the depth.
    assert 0 <= commands - tried_again - ended <= 4, (commands, tried_again, ended)


def test_session_reinstated_by_an_equal_initiator(place):
    """The same name and ISID log in a second time while a run goes on: the target throws the first connection out."""
    with ram_disks(1) as (device,), Lio() as lio:
        lio.target("disk", lio.block("ram", device))
        process = start("run", place.campaign(campaign(disk(lio), STEP)), "--runs", place.runs, "--json")
        read_events(process, lambda e: e["event"] == "live" and e["interval"] >= 1)
        with Initiator(lio.portal, f"{IQN}:disk", f"{NAME}0"):  # which the run's reconnect throws out in turn
            done = finish(process)
        step = done.steps()[0]
        (connection,) = step["connections"]
        print(f"        {step['outcome']}, {errors_of(step)}, down {connection['down_ns'] / 1e6:.0f} ms, {connection['counters']}",
              flush=True)
        assert done.code == 1 and step["outcome"] == "INVALID", done
        assert connection["counters"]["connections lost"] == 1 and connection["counters"]["reconnects"] == 1, connection
        assert connection["down_ns"] > 0, connection
        # What was on the way has failed as reset, and no more than was on the way.
        assert {(e["class"], e["native_code"]) for e in step["errors"]} == {("io", 104)}, step["errors"]
        assert 1 <= sum(e["count"] for e in step["errors"]) <= 4, step["errors"]
        check_sums(step)
        check_counts(place, step)
        assert sum(k["completed"] for k in export(place)[-1]["kinds"]) > 0, "the load goes on after it"


def test_reservation_held_by_another_initiator(place):
    with ram_disks(1) as (device,), Lio() as lio:
        lio.target("disk", lio.block("ram", device))
        assert run(place, place.campaign(campaign(disk(lio), STEP.replace("6s", "1s")))).code == 0  # labels it
        with Initiator(lio.portal, f"{IQN}:disk", f"{IQN}:holder") as holder:
            holder.reserve(REGISTER, 0, action_key=0x4711)
            holder.reserve(RESERVE, WRITE_EXCLUSIVE, key=0x4711)
            refused(place, disk(lio), "ISCSI_RESERVED", "LUN 0", "RESERVATION CONFLICT", step=STEP)  # not even a label
            holder.reserve(RELEASE, WRITE_EXCLUSIVE, key=0x4711)
            process = start("run", place.campaign(campaign(disk(lio), STEP)), "--runs", place.runs, "--json")
            read_events(process, lambda e: e["event"] == "live" and e["interval"] >= 1)
            holder.reserve(RESERVE, WRITE_EXCLUSIVE, key=0x4711)
            done = finish(process)
        (step,) = done.steps()
        (connection,) = step["connections"]
        print(f"        {step['outcome']}, {errors_of(step)}, {connection['counters']}", flush=True)
        failed = sum(e["count"] for e in step["errors"])
        assert done.code == 1 and step["outcome"] == "INVALID" and failed > 0, done
        assert [(e["kind"], e["class"]) for e in step["errors"]] == [("write", "other")], step["errors"]
        assert connection["counters"]["RESERVATION CONFLICT"] == failed, connection  # by name, and none tried again
        evidence = next(c["evidence"] for c in step["checks"] if c["name"] == "errors")
        assert "RESERVATION CONFLICT" in evidence, evidence
        assert connection["down_ns"] == 0 and "connections lost" not in connection["counters"], connection
        assert kind(step["fleet"], "read")["completed"] > 0 and kind(step["fleet"], "read")["failed"] == 0
        check_sums(step)
        check_counts(place, step)


if __name__ == "__main__":
    main(globals())
