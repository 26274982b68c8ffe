"""iSCSI initiators on the kernel's target LIO: what runs, what it negotiates, and how it refuses."""
import json
import os

from harness import check_run, main, muster, run
from kernel import IQN, Lio, NAME, head, ram_disks, refused
from tgtd import MIB, campaign, check_sums, disk as disk_of, kind, outcomes

WRITES = "workload: {block: 4KiB, pattern: random, read: 70%, size: 16MiB}, load: 1T4Q, measure: {warmup: 0s, window: 3s}"
READS = "workload: {size: 8MiB}, measure: {warmup: 0s, window: 1s}"
SECRET, WRONG = "open-sesame-4711", "close-sesame-0815"


def disk(lio, lun="0", name="disk", more=""):
    return disk_of(lio, lun, name, more).replace("iqn.2026-11.net.muster.test", IQN)


def test_campaign_of_two_initiators_is_valid_and_labelled(place):
    with ram_disks(1) as (device,), Lio() as lio:
        lio.target("disk", lio.block("ram", device))
        text = place.campaign(campaign(disk(lio), WRITES, initiators=2))
        generations = []
        for _ in range(2):
            done = run(place, text, "--local", "2")
            step = done.steps()[0]
            assert done.code == 0 and step["outcome"] == "VALID", (step["checks"], done)
            check_sums(step)
            assert all(kind(i)["completed"] > 0 for i in step["initiators"]), step["initiators"]
            share = kind(step["fleet"], "read")["completed"] / kind(step["fleet"])["completed"]
            assert 0.6 < share < 0.8, share
            facts = {f["name"]: f["value"] for f in step["facts"]}
            generations.append(next(v for k, v in facts.items() if k.endswith(": label")).split("generation ")[1])
            print(f"        {kind(step['fleet'])['completed']} operations, {outcomes(step)}", flush=True)
            lio.logged_out("disk")
        assert generations == ["1", "2"], generations
        assert head(device).startswith(b"MUSTER-LABEL")


def test_foreign_data_is_refused(place):
    with ram_disks(1) as (device,), Lio() as lio:
        check_run("mkfs.ext4", "-q", device)
        before = head(device, 64 * MIB)
        lio.target("disk", lio.block("ram", device))
        refused(place, disk(lio), "TARGET_HAS_DATA", "ext4", "LUN 0", step=WRITES)
        assert head(device, 64 * MIB) == before
        assert run(place, place.campaign(campaign(disk(lio), READS))).code == 0  # who only reads may


def test_probe_tells_luns_and_parameters(place):
    with ram_disks(2) as (device, other), Lio() as lio:
        image = os.path.join(place.path, "file.img")
        with open(image, "wb") as f:
            f.truncate(32 * MIB)
        check_run("mkfs.ext4", "-q", "-F", image)
        before = head(device, 64 * MIB)
        lio.target("disk", lio.block("ram", device, serial="muster-lab-serial"), lio.block("other", other), lio.file("file", image, 32 * MIB))
        done = muster("targets", "probe", f"iscsi://{lio.portal}/{IQN}:disk", "--json")
        assert done.code in (0, 1), done
        (event,) = done.events()
        luns = {lun["lun"]: lun for lun in event["luns"]}
        assert sorted(luns) == [0, 1, 2] and event["luns_reported"] == 3, event
        assert luns[0]["writable"] and luns[0]["found"] == "blank" and luns[0]["size"] == 64 * MIB, luns[0]
        assert luns[0]["vendor"].strip() == "LIO-ORG", luns[0]
        assert luns[2]["refusal"]["code"] == "TARGET_HAS_DATA" and luns[2]["size"] == 32 * MIB, luns[2]
        session = event["session"]
        assert session["target"] == f"{IQN}:disk" and session["authentication"] != "CHAP", session
        assert int(session["MaxRecvDataSegmentLength of the target"]) > 0 and int(session["command window"]) > 0, session
        print(f"        session: {json.dumps(session)}", flush=True)
        print(f"        LUN 0: {json.dumps(luns[0])}", flush=True)
        assert head(device, 64 * MIB) == before


def test_header_digest(place):
    with ram_disks(1) as (device,), Lio() as lio:
        store = lio.block("ram", device)
        lio.target("disk", store, HeaderDigest="CRC32C,None")
        done = run(place, place.campaign(campaign(disk(lio, more=", header_digest: crc32c"), WRITES, initiators=2)), "--local", "2")
        assert done.code == 0 and done.steps()[0]["outcome"] == "VALID", done
        check_sums(done.steps()[0])
        assert any(f["name"].endswith("HeaderDigest") and f["value"] == "CRC32C" for f in done.steps()[0]["facts"])
        lio.logged_out("disk")
    with ram_disks(1) as (device,), Lio() as lio:
        store = lio.block("ram", device)
        lio.target("disk", store, HeaderDigest="None")
        refused(place, disk(lio, more=", header_digest: crc32c"), "ISCSI_DIGEST", lio.portal)
    with ram_disks(1) as (device,), Lio() as lio:
        store = lio.block("ram", device)
        lio.target("disk", store, HeaderDigest="CRC32C")
        refused(place, disk(lio), "ISCSI_NEGOTIATION", lio.portal, "HeaderDigest None")


def test_target_that_insists_on_data_digests(place):
    with ram_disks(1) as (device,), Lio() as lio:
        lio.target("disk", lio.block("ram", device), DataDigest="CRC32C")
        refused(place, disk(lio), "ISCSI_NEGOTIATION", lio.portal, "DataDigest None")


def test_access_list(place):
    with ram_disks(1) as (device,), Lio() as lio:
        store = lio.block("ram", device)
        lio.target("disk", store, initiators=[f"{IQN}:somebody-else"])
        lio.target("first", store, initiators=[f"{NAME}0"])
        refused(place, disk(lio), "ISCSI_LOGIN_ACL", f"{IQN}:disk", f"{NAME}0")
        # The second initiator's refusal is found before anything is measured.
        done = run(place, place.campaign(campaign(disk(lio, name="first"), READS, initiators=2)), "--local", "2")
        error = done.result()["error"]
        assert done.code == 3 and error["code"] == "ISCSI_LOGIN_ACL" and f"{NAME}1" in error["message"], done
        assert run(place, place.campaign(campaign(disk(lio, name="first"), READS))).code == 0
        refused(place, disk(lio, name="nobody"), "ISCSI_NO_TARGET", f"{IQN}:nobody")
        refused(place, disk(lio, lun="7", name="first"), "ISCSI_NO_LUN", "LUN 7")


def test_chap(place):
    with ram_disks(1) as (device,), Lio() as lio:
        lio.target("disk", lio.block("ram", device), chap=("alice", SECRET))
        os.environ.update(GOOD=SECRET, BAD=WRONG)
        for given in ("", ", chap: {user: alice, secret: {env: BAD}}", ", chap: {user: bob, secret: {env: GOOD}}"):
            done = refused(place, disk(lio), "ISCSI_LOGIN_AUTH", f"{IQN}:disk", chap=given)
            assert SECRET not in done.out + done.err and WRONG not in done.out + done.err
        done = run(place, place.campaign(campaign(disk(lio), READS, chap=", chap: {user: alice, secret: {env: GOOD}}")))
        assert done.code == 0, done


if __name__ == "__main__":
    main(globals())
