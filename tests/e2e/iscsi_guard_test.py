"""The write guard on LUNs of a real tgtd: foreign data is never touched, labels are."""
import os
import subprocess

from harness import (alive, check_run, children_of, file_hash, finish, main, muster, read_events, run, start, wait_for)
from tgtd import IQN, MIB, Tgtd, campaign, check_sums, disk, pieces

SIZE = 64 * MIB
WRITES = "workload: {read: 50%, size: 16MiB}, measure: {warmup: 0s, window: 1s}"


def ext4(path):
    check_run("mkfs.ext4", "-q", path)


def put(offset, data):
    def write(path):
        with open(path, "r+b") as f:
            f.seek(offset if offset >= 0 else os.path.getsize(path) + offset)
            f.write(data)
    return write


def gpt(sector):
    def write(path):
        device = check_run("losetup", "--find", "--show", "--sector-size", str(sector), path)
        try:
            subprocess.run(["sfdisk", "-q", device], input="label: gpt\nstart=8MiB, size=8MiB\n", text=True, check=True,
                           capture_output=True)
        finally:
            check_run("losetup", "-d", device)
    return write


def gpt_at_the_end_only(path):
    gpt(512)(path)
    put(0, bytes(MIB))(path)


FOREIGN = {  # what, sector size, how it comes there, what the refusal must name
    "ext4": (512, ext4, "ext4"),
    "ext4 on 4096": (4096, ext4, "ext4"),
    "GPT on 512": (512, gpt(512), "gpt"),
    "GPT on 4096": (4096, gpt(4096), "gpt"),
    "GPT at the end": (512, gpt_at_the_end_only, ""),
    "unknown bytes": (512, put(12345, b"somebody's"), "12345"),
    "the last byte": (512, put(-1, b"x"), ""),
    "unknown bytes in the eighth MiB": (512, put(8 * MIB - 1, b"x"), ""),
}


def test_foreign_data_is_never_touched(place):
    with Tgtd(place) as tgtd:
        tid = tgtd.target()
        for number, (what, (sector, prepare, named)) in enumerate(FOREIGN.items(), 1):
            image = tgtd.lun(tid, number, SIZE, block=sector, prepare=prepare)
            before = file_hash(image)
            text = place.campaign(campaign(disk(tgtd, str(number)), WRITES))
            done = run(place, text)
            error = done.result()["error"]
            said = error["place"] + " " + error["message"]
            assert done.code == 3 and error["code"] == "TARGET_HAS_DATA", (what, done)
            assert f"LUN {number}" in said and f"{IQN}:disk" in said and tgtd.portal in said, (what, error)
            assert named in said.lower(), (what, error)
            planned = muster("plan", text)
            assert planned.code == 1 and "REFUSED" in planned.out, (what, planned)
            if number == 1:  # who only reads may
                assert run(place, place.campaign(campaign(disk(tgtd, "1"), WRITES.replace("50%", "100%")))).code == 0
            assert file_hash(image) == before, f"a refused LUN was written: {what}"


def test_one_foreign_lun_of_several_stops_all(place):
    with Tgtd(place) as tgtd:
        tid = tgtd.target()
        images = [tgtd.lun(tid, 1, SIZE), tgtd.lun(tid, 2, SIZE, prepare=ext4)]
        before = [file_hash(image) for image in images]
        done = run(place, place.campaign(campaign(disk(tgtd, "1..2"), WRITES, initiators=2)), "--local", "2")
        assert done.code == 3 and done.result()["error"]["code"] == "TARGET_HAS_DATA", done
        assert "LUN 2" in done.result()["error"]["place"], done
        assert [file_hash(image) for image in images] == before, "even the blank one is left alone"


def test_overwrite_needs_the_right_identity_and_size(place):
    with Tgtd(place) as tgtd:
        tid = tgtd.target()
        image = tgtd.lun(tid, 1, SIZE, prepare=ext4)
        before = file_hash(image)
        where = f"{IQN}:disk+1"

        def campaign_of(overwrite):
            return place.campaign(campaign(disk(tgtd, more=f", overwrite: {{{overwrite}}}"), WRITES))
        for overwrite, code in (("id: nonsense, size: 64MiB", "TARGET_WRONG_ID"),
                                (f'id: "{IQN}:disk+2", size: 64MiB', "TARGET_WRONG_ID"),
                                (f'id: "{where}", size: 63MiB', "TARGET_WRONG_SIZE"),
                                (f'id: "{where}", size: 67108863B', "TARGET_WRONG_SIZE")):
            done = run(place, campaign_of(overwrite))
            assert done.code == 3 and done.result()["error"]["code"] == code, (overwrite, done)
            assert file_hash(image) == before, overwrite
        allowed = campaign_of(f'id: "{where}", size: 64MiB')
        planned = muster("plan", allowed)
        assert planned.code == 0 and "ext4" in planned.out and file_hash(image) == before, planned
        done = run(place, allowed)
        assert done.code == 0, done
        check_sums(done.steps()[0])
        # The old signatures are gone from both ends; what lay between is not muster's to erase.
        assert next(pieces(image, SIZE - MIB, MIB)).count(0) == MIB
        head = next(pieces(image, 0, MIB))
        assert head.startswith(b"MUSTER-LABEL") and head[4096:].count(0) == MIB - 4096
        # From now on the label lets the next run in, named or not.
        for text in (allowed, place.campaign(campaign(disk(tgtd), WRITES))):
            assert run(place, text).code == 0


def label_of(image):
    with open(image, "rb") as f:
        block = f.read(4096)
    assert block.startswith(b"MUSTER-LABEL"), block[:64]
    return block[24:40]  # its UUID


def test_label_survives_and_is_accepted_again(place):
    with Tgtd(place) as tgtd:
        tid = tgtd.target()
        image = tgtd.lun(tid, 1, SIZE)
        text = place.campaign(campaign(disk(tgtd), "workload: {read: 0%, size: 62MiB, pattern: sequential, block: 1MiB}, "
                                       "load: 2T4Q, measure: {warmup: 0s, window: 1s}", initiators=2))
        seen, generations = set(), []
        for _ in range(2):
            done = run(place, text, "--local", "2")
            assert done.code == 0, done
            seen.add(label_of(image))
            facts = {f["name"]: f["value"] for f in done.steps()[0]["facts"]}
            generations.append(next(v for k, v in facts.items() if k.endswith(": label")).split("generation ")[1])
        assert len(seen) == 1 and generations == ["1", "2"], (seen, generations)
        # A grown LUN is another one: the label tells the size it was written for.
        more = tgtd.lun(tid, 2, 2 * SIZE, prepare=put(0, open(image, "rb").read(4096)))
        before = file_hash(more)
        done = run(place, place.campaign(campaign(disk(tgtd, "2"), WRITES)))
        assert done.code == 3 and done.result()["error"]["code"] == "TARGET_HAS_DATA", done
        assert file_hash(more) == before


def test_second_run_on_a_lun_is_refused(place):
    with Tgtd(place) as tgtd:
        image = tgtd.lun(tgtd.target(), 1, SIZE)
        tgtd.lun(tgtd.target("alias"), 1, path=image)  # another way to the same bytes
        text = place.campaign(campaign(disk(tgtd), WRITES.replace("window: 1s", "window: 4s"), initiators=2))
        other = place.file("other.yaml", campaign(disk(tgtd, name="alias"), WRITES))
        first = start("run", text, "--runs", place.runs, "--json", "--local", "2")
        read_events(first, lambda e: e["event"] == "live")
        label = label_of(image)
        for second in (text, other):
            refused = run(place, second, "--local", "2")
            error = refused.result()["error"]
            assert refused.code == 3 and error["code"] == "TARGET_HELD" and "LUN 1" in error["place"], refused
        done = finish(first, 60)
        assert done.code == 0 and label_of(image) == label, done
        check_sums(done.steps()[0])
        # And a killed run holds nothing.
        killed = start("run", text, "--runs", place.runs, "--json", "--local", "2")
        read_events(killed, lambda e: e["event"] == "live")
        agents = children_of(killed.pid)
        killed.kill()
        killed.communicate()
        wait_for(lambda: not any(alive(pid) for pid in agents), 30, "end of the agents")
        assert run(place, other).code == 0


def test_two_targets_of_a_campaign_over_one_lun(place):
    with Tgtd(place) as tgtd:
        image = tgtd.lun(tgtd.target(), 1, SIZE)
        tgtd.lun(tgtd.target("alias"), 1, path=image)
        text = f"""
name: twice
targets:
  a: {{iscsi: {{{disk(tgtd)}}}}}
  b: {{iscsi: {{{disk(tgtd, name="alias")}}}}}
steps:
  - {{name: one, target: a, {WRITES}}}
  - {{name: two, target: b, {WRITES}}}
  - {{name: three, target: a, {WRITES}}}
"""
        done = run(place, place.campaign(text))
        assert done.code == 3 and done.result()["error"]["code"] == "TARGET_HELD", done
        assert done.steps()[0]["outcome"] == "VALID" and f"{IQN}:alias" in done.result()["error"]["place"], done
        text = text.replace("target: b", "target: a").replace("\n  b: ", "\n  # ")
        assert run(place, place.campaign(text)).code == 0


if __name__ == "__main__":
    main(globals())
