"""The write guard against what only a kernel with these drivers has: swap, device mapper, RAID, SCSI identities; xfs."""
import contextlib
import glob
import os

from harness import check_run, main, muster, run, wait_for
from kernel import head, modprobe, ram_disks
from tgtd import MIB, check_sums, outcomes

SIZE = 64 * MIB


def block(place, device, extra=""):
    return place.campaign(f"""
name: guard
targets: {{d: {{block: {{device: {device}{extra}}}}}}}
steps: [{{name: rw, target: d, workload: {{read: 50%, size: 16MiB}}, measure: {{warmup: 0s, window: 1s}}}}]
""")


def untouched(place, device, code, *named, extra="", watched=None):
    """Refused with `code`, by plan and run, and not a byte of `watched` is changed."""
    before = head(watched or device, SIZE)
    text = block(place, device, extra)
    planned = muster("plan", text)
    assert planned.code == 1 and "REFUSED" in planned.out and code in planned.out, planned
    done = run(place, text)
    error = done.result()["error"]
    assert done.code == 3 and error["code"] == code, (code, done)
    for words in named:
        assert words in error["place"] + error["message"] + error["next"], (words, error)
    assert head(watched or device, SIZE) == before, f"{device} was written"
    print(f"        {code}: {error['message']}", flush=True)


def overwrite(identity):
    return f', overwrite: {{id: "{identity}", size: 64MiB}}'


def test_active_swap(place):
    with ram_disks(1) as (device,):
        check_run("mkswap", device)
        check_run("swapon", device)
        try:
            # Not even with permission to overwrite.
            for extra in ("", overwrite("ram0")):
                untouched(place, device, "TARGET_SWAP", device, "swapoff", extra=extra)
        finally:
            check_run("swapoff", device)
        untouched(place, device, "TARGET_HAS_DATA", "swap")


def test_device_below_a_mapped_one(place):
    modprobe("dm_mod")
    with ram_disks(1) as (device,):
        check_run("dmsetup", "create", "--noudevsync", "lab", "--table", f"0 {SIZE // 512} linear {device} 0")
        try:
            check_run("dmsetup", "mknodes")
            untouched(place, device, "TARGET_HELD", "dm-0")
            # The mapped device is what may be written, through its name.
            done = run(place, block(place, "/dev/mapper/lab"))
            assert done.code == 0, done
            check_sums(done.steps()[0])
        finally:
            check_run("dmsetup", "remove", "--noudevsync", "lab")
        done = run(place, block(place, device))  # alone again, and our own label on it
        assert done.code == 0, done


def test_members_of_a_raid(place):
    modprobe("md_mod", "raid1")
    with ram_disks(2) as (one, two):
        check_run("mdadm", "--create", "/dev/md0", "--run", "--level=1", "--raid-devices=2", "--metadata=1.2",
                  "--assume-clean", one, two)
        try:
            for member in (one, two):
                untouched(place, member, "TARGET_HELD", "md0")
        finally:
            check_run("mdadm", "--stop", "/dev/md0")
        # Stopped, a member still holds data.
        untouched(place, one, "TARGET_HAS_DATA", "raid")


@contextlib.contextmanager
def scsi_disk():
    """A disk of scsi_debug: 64 MiB of memory, with the identities of a SCSI device."""
    modprobe("sd_mod")
    modprobe("scsi_debug", dev_size_mb=64)
    try:
        def found():
            paths = [p for p in glob.glob("/sys/block/sd*") if "scsi_debug" in open(f"{p}/device/model").read()]
            return paths and os.path.exists(f"/dev/{os.path.basename(paths[0])}") and os.path.basename(paths[0])
        yield wait_for(found, 20, "disk of scsi_debug")
    finally:
        check_run("modprobe", "-r", "scsi_debug")


def test_wwid_permits_to_overwrite(place):
    with scsi_disk() as name:
        device = f"/dev/{name}"
        with open(f"/sys/block/{name}/device/wwid") as f:
            wwid = " ".join(f.read().split())
        print(f"        {wwid}", flush=True)
        check_run("mkfs.ext4", "-q", device)
        untouched(place, device, "TARGET_HAS_DATA", "ext4", wwid)  # names what to write
        untouched(place, device, "TARGET_WRONG_ID", extra=overwrite(wwid + "0"))
        done = run(place, block(place, device, overwrite(wwid)))
        assert done.code == 0, done
        assert head(device).startswith(b"MUSTER-LABEL")


def test_files_on_xfs(place):
    image, mount = os.path.join(place.path, "xfs.img"), os.path.join(place.path, "mnt")
    os.mkdir(mount)
    with open(image, "wb") as f:
        f.truncate(400 * MIB)
    modprobe("loop", "xfs")
    check_run("mkfs.xfs", "-q", image)
    device = check_run("losetup", "--find", "--show", image)
    try:
        check_run("mount", "-t", "xfs", device, mount)
        try:
            done = run(place, place.campaign(f"""
name: xfs
targets: {{f: {{file: {{dir: {mount}/data, direct: true}}}}}}
initiators: {{count: 2}}
steps: [{{name: rw, target: f, workload: {{read: 70%, size: 16MiB}}, load: 1T4Q, measure: {{warmup: 0s, window: 2s}}}}]
"""), "--local", "2")
            (step,) = done.steps()
            assert done.code == 0 and step["outcome"] == "VALID", (step["checks"], done)
            check_sums(step)
            print(f"        {outcomes(step)}", flush=True)
            # The device below a mounted file system is nobody's.
            untouched(place, device, "TARGET_MOUNTED", mount)
        finally:
            check_run("umount", mount)
    finally:
        check_run("losetup", "-d", device)


if __name__ == "__main__":
    main(globals())
