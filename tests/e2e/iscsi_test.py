"""iSCSI initiators on a real tgtd: as many, named, dealt and added up as asked, and the data is what others read."""
import json
import os
import subprocess

from harness import Skip, children_of, finish, main, muster, read_events, run, start
from tgtd import IQN, MIB, Tgtd, campaign, check_sums, disk, kind, outcomes, pieces

NAME = "iqn.2026-11.net.muster:initiator-"
SECRET = "correct-horse-7142"
ALL_PASS = {"sums": "pass", "coverage": "pass", "errors": "pass", "intervals": "pass", "operation_age": "pass", "links": "pass",
            "connections": "pass"}


def measured_beside(process, look, every=False):
    """Reads the events of a run and calls look(number of the step) once in the middle of each
    (or at every interval); returns the result."""
    seen, events = set(), []
    while True:
        events += read_events(process, lambda e: e["event"] in ("live", "result"))
        if events[-1]["event"] == "result":
            return events[-1]
        step = events[-1]["step"]
        if every or step not in seen:
            seen.add(step)
            look(step)


HALVES = "interval: 500ms"  # so that sessions are looked at after the first of two intervals


def sessions_of(initiators, each=1, first=0):
    return sorted(f"{NAME}{i}" for i in range(first, first + initiators) for _ in range(each))


def test_initiators_over_three_agents(place):
    with Tgtd(place) as tgtd:
        tid = tgtd.target()
        for number in range(1, 5):
            tgtd.lun(tid, number)
        for lun, layout, rungs in (("1", "shared", [1, 2, 4, 8]), ("1", "partition", [8]), ("1..4", "shared", [8]),
                                   ("[1, 2..4]", "partition", [1, 2, 4, 8])):
            text = campaign(disk(tgtd, lun), f"workload: {{read: 70%, size: 32MiB, layout: {layout}}}, load: 2T2Q, "
                            f"measure: {{warmup: 0s, window: 1s}}, sweep: {{initiators: {rungs}}}", extra=HALVES)
            asked = {}
            process = start("run", place.campaign(text), "--runs", place.runs, "--json", "--local", "3")
            result = measured_beside(process, lambda step: asked.update({step: tgtd.sessions()}))
            done = finish(process)
            assert done.code == 0 and result["outcome"] == "complete", (done, result)
            assert len(asked) == len(rungs), asked
            for index, (step, initiators) in enumerate(zip(result["run"]["steps"], rungs)):
                assert outcomes(step) == ALL_PASS and step["outcome"] == "VALID", step["checks"]
                check_sums(step)
                assert [i["name"] for i in step["initiators"]] == [str(i) for i in range(initiators)]
                assert all(kind(i)["completed"] > 0 for i in step["initiators"]), step["initiators"]
                # Spread over the agents first, then packed.
                assert [i["agent"] for i in step["initiators"]] == [f"local-{i % 3 + 1}" for i in range(initiators)]
                assert len(step["objects"]) == (1 if lun == "1" else 4), step["objects"]
                assert sorted(asked[index][f"{IQN}:disk"]) == sessions_of(initiators), (step["name"], asked)
        assert tgtd.sessions() == {f"{IQN}:disk": []}, "every session is logged out"


def test_connections_of_an_initiator(place):
    with Tgtd(place) as tgtd:
        tid = tgtd.target()
        tgtd.lun(tid)
        for connections, load, each in (("2", "4T2Q", 2), ("per_stream", "3T2Q", 3), ("8", "2T2Q", 2)):
            text = campaign(disk(tgtd, more=f", connections: {connections}"), "workload: {read: 50%, size: 32MiB}, "
                            f"load: {load}, measure: {{warmup: 0s, window: 1s}}", initiators=3, extra=HALVES)
            there = []
            process = start("run", place.campaign(text), "--runs", place.runs, "--json", "--local", "2")
            result = measured_beside(process, lambda step: there.extend(tgtd.connections(tid)))
            assert finish(process).code == 0, result
            check_sums(result["run"]["steps"][0])
            assert sorted(c[2] for c in there) == sessions_of(3, each), (connections, there)
            assert len({c[0] for c in there}) == 3 * each, "sessions of their own"


def test_a_target_for_each_initiator(place):
    with Tgtd(place) as tgtd:
        images = []
        for i in range(4):
            # Whoever is not the one initiator of a target is refused.
            images.append(tgtd.lun(tgtd.target(f"t{i}", initiator=f"{NAME}{i}")))
        there = {}
        text = campaign(disk(tgtd, name="t{initiator}"), "workload: {read: 0%, size: 128MiB}, load: 1T4Q, "
                        "measure: {warmup: 0s, window: 1s}, sweep: {initiators: [2, 4]}", initiators=4, extra=HALVES)
        text = text.replace("initiators: {count: 4}\n", "")
        process = start("run", place.campaign(text), "--runs", place.runs, "--json", "--local", "3")
        result = measured_beside(process, lambda step: there.update({step: tgtd.sessions()}))
        assert finish(process).code == 0, result
        for index, (step, initiators) in enumerate(zip(result["run"]["steps"], (2, 4))):
            check_sums(step)
            assert there[index] == {f"{IQN}:t{i}": [f"{NAME}{i}"] if i < initiators else [] for i in range(4)}, there
        for image in images:
            assert any(piece.count(0) != MIB for piece in pieces(image, MIB, 32 * MIB)), image


def check_ends(image):
    """The first MiB holds the label and nothing else, the last one nothing."""
    first = next(pieces(image, 0, MIB))
    last = next(pieces(image, os.path.getsize(image) - MIB, MIB))
    assert first.startswith(b"MUSTER-LABEL"), first[:64]
    assert first[4096:].count(0) == MIB - 4096 and last.count(0) == MIB, image


def test_data_is_what_an_independent_reader_sees(place):
    with Tgtd(place) as tgtd:
        tid = tgtd.target()
        tgtd.chap(tid, "reader", SECRET)
        images = [tgtd.lun(tid, 1, 32 * MIB), tgtd.lun(tid, 2, 32 * MIB, block=4096)]
        chap = ", chap: {user: reader, secret: {env: CHAP_SECRET}}"
        env = {**os.environ, "CHAP_SECRET": SECRET}
        text = campaign(disk(tgtd, "1..2"), "workload: {read: 100%, size: 60MiB}, load: 1T4Q, "
                        "precondition: {fill: 1x}, measure: {warmup: 0s, window: 1s}", initiators=2, chap=chap)
        done = run(place, place.campaign(text), "--local", "2", env=env)
        assert done.code == 0 and done.steps()[0]["fill"]["bytes"] == 60 * MIB, done
        seen = set()
        for image in images:
            check_ends(image)
            for block in pieces(image, MIB, 30 * MIB, 4096):
                assert block.count(0) < 4096
                seen.add(block)
        assert len(seen) == 60 * MIB // 4096, "every block is unlike every other"
        # And after random writes at the edges of the set as well.
        text = text.replace("read: 100%", "read: 0%, block: 64KiB").replace("precondition: {fill: 1x}, ", "")
        assert run(place, place.campaign(text), "--local", "2", env=env).code == 0
        for number, image in enumerate(images, 1):
            check_ends(image)
            copy = os.path.join(place.path, "copy.img")
            url = f"iscsi://reader%{SECRET}@{tgtd.portal}/{IQN}:disk/{number}"
            read = subprocess.run(["qemu-img", "convert", "-O", "raw", url, copy], capture_output=True, text=True,
                                  timeout=60)
            if "Unknown protocol" in read.stderr:
                raise Skip("qemu-img has no iscsi (packages qemu-utils, qemu-block-extra)")
            assert read.returncode == 0, read
            with open(image, "rb") as a, open(copy, "rb") as b:
                assert a.read() == b.read(), "another initiator reads something else than the backing file holds"


def peak_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))


def run_with_one_agent(place, text, look):
    process = start("run", place.campaign(text), "--runs", place.runs, "--json", "--local", "1")
    peaks = []

    def peek(step):
        peaks.append(peak_of(children_of(process.pid)[0]))
        look(step)
    result = measured_beside(process, peek, every=True)
    assert finish(process).code == 0, result
    return result["run"]["steps"][0], max(peaks)


def test_many_initiators_from_one_agent(place):
    with Tgtd(place) as tgtd:
        tid = tgtd.target()
        for number in range(1, 5):
            tgtd.lun(tid, number)
        text = campaign(disk(tgtd, "1..4"), "workload: {read: 70%, size: 128MiB}, load: 16T16Q, "
                        "measure: {warmup: 1s, window: 3s}", initiators=24)
        there = {}
        step, peak = run_with_one_agent(place, text, lambda _: there or there.update(tgtd.sessions()))
        assert outcomes(step) == ALL_PASS, step["checks"]
        check_sums(step)
        assert sorted(there[f"{IQN}:disk"]) == sessions_of(24), there
        assert all(kind(i)["completed"] > 0 for i in step["initiators"]), step["initiators"]
        # What all 24 negotiated is in the result, none left out.
        facts = {f["name"]: f["value"] for f in step["facts"]}
        assert not [name for name in facts if "left out" in name], facts
        isids = facts["local-1: measure backend ISID"].split("; ")
        assert sorted(int(i.split(".")[0]) for i in isids) == list(range(24)), isids
        assert "262144" in facts["local-1: measure backend FirstBurstLength"] and facts["local-1: measure backend LUN write cache"], facts
        assert step["fleet"]["asked_depth"] == 24 * 256
        assert 0.95 * 24 * 256 < step["fleet"]["achieved_depth"] <= 24 * 256 + 0.001, step["fleet"]
        # 100 MB of recorders and the buffers, beyond what the program takes for one initiator with one operation: sessions
        # and reports under way are in it.
        alone = campaign(disk(tgtd, "1..4"), "workload: {read: 70%, size: 128MiB}, load: 1T1Q, "
                         "measure: {warmup: 0s, window: 1s}", extra=HALVES)
        base = run_with_one_agent(place, alone, lambda _: None)[1]
        assert peak - base <= 100_000_000 + 24 * 256 * 4096, f"{peak >> 20} MiB, alone {base >> 20} MiB"


def test_results_and_exports_have_every_initiator(place):
    with Tgtd(place) as tgtd:
        tgtd.lun(tgtd.target())
        text = campaign(disk(tgtd), "workload: {read: 50%, size: 16MiB}, load: 1T2Q, measure: {warmup: 1s, window: 2s}",
                        initiators=5)
        done = run(place, place.campaign(text), "--local", "3")
        assert done.code == 0, done
        exported = muster("results", "--runs", place.runs, "export", "last", "--format", "json")
        step = json.loads(exported.out)["steps"][0]
        assert [i["interval"] for i in step["intervals"]] == [0, 1, 2], step["intervals"]
        for row in step["intervals"]:
            assert [i["initiator"] for i in row["initiators"]] == list(range(5)), row
            for name in ("read", "write"):
                rows = [k for i in row["initiators"] for k in i["kinds"] if k["kind"] == name]
                assert sum(k["completed"] for k in rows) == kind(row, name)["completed"], row
        facts = {f["name"].split(": ", 1)[1]: f["value"] for f in step["facts"]}
        named = " ".join(f"{name}={value}" for name, value in facts.items())
        for told in (tgtd.portal, f"{IQN}:disk", "MaxBurstLength", "HeaderDigest", "write cache", "label"):
            assert told in named, (told, named)


if __name__ == "__main__":
    main(globals())
