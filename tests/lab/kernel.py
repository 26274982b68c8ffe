"""What the cases of the lab share: the guest's kernel as iSCSI target (LIO by configfs), RAM disks, modules."""
import contextlib
import glob
import os
import subprocess

from harness import Skip, check_run, run, wait_for
from tgtd import MIB, campaign

ROOT = "/sys/kernel/config/target"
IQN = "iqn.2026-11.net.muster.lab"
NAME = "iqn.2026-11.net.muster:initiator-"


def modprobe(*names, **parameters):
    for name in names:
        done = subprocess.run(["modprobe", name, *(f"{k}={v}" for k, v in parameters.items())], capture_output=True, text=True)
        if done.returncode != 0:
            raise Skip(f"the guest's kernel has no {name}: {done.stderr.strip()}")


def put(path, value):
    with open(path, "w") as f:
        f.write(str(value))


def get(path):
    with open(path, errors="replace") as f:
        return f.read().strip("\0\n ")


@contextlib.contextmanager
def ram_disks(count, size=64 * MIB):
    """/dev/ram0 ...: blank. Pages written are gone afterwards."""
    modprobe("brd", rd_nr=count, rd_size=size // 1024)
    try:
        yield [f"/dev/ram{i}" for i in range(count)]
    finally:
        check_run("modprobe", "-r", "brd")


class Lio:
    """The kernel's target for one test; everything made is taken away again."""
    portal = "127.0.0.1:3260"

    def __init__(self):
        os.makedirs("/var/target/pr", exist_ok=True)  # where the kernel keeps reservations; without it, there are none
        modprobe("target_core_mod", "target_core_iblock", "target_core_file", "iscsi_target_mod")
        if not os.path.isdir(ROOT):
            check_run("mount", "-t", "configfs", "config", "/sys/kernel/config")
        os.makedirs(f"{ROOT}/iscsi", exist_ok=True)
        self.stores, self.targets = [], []

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        for name in self.targets:
            self.remove(name)
        for store in reversed(self.stores):
            os.rmdir(store)

    def block(self, name, device, serial=None):
        """A backing store over a block device; returns it."""
        store = f"{ROOT}/core/iblock_0/{name}"
        os.makedirs(store)
        self.stores.append(store)
        put(f"{store}/control", f"udev_path={device}")
        put(f"{store}/enable", 1)
        if serial:
            put(f"{store}/wwn/vpd_unit_serial", serial)
        return store

    def file(self, name, path, size):
        store = f"{ROOT}/core/fileio_0/{name}"
        os.makedirs(store)
        self.stores.append(store)
        put(f"{store}/control", f"fd_dev_name={path},fd_dev_size={size},fd_buffered_io=1")
        put(f"{store}/enable", 1)
        return store

    def target(self, name, *stores, portal=None, chap=None, initiators=None, iser=False, **parameters):
        """A target IQN:NAME with a LUN 0 ... for each store. chap: (user, secret) of whoever comes; initiators: names that
        may come, None: all. Returns its directory."""
        group = self.group(name)
        os.makedirs(group)
        self.targets.append(name)
        for number, store in enumerate(stores):
            os.makedirs(f"{group}/lun/lun_{number}")
            os.symlink(store, f"{group}/lun/lun_{number}/store")
        put(f"{group}/attrib/authentication", 1 if chap else 0)
        put(f"{group}/attrib/generate_node_acls", 1 if initiators is None else 0)
        put(f"{group}/attrib/cache_dynamic_acls", 1 if initiators is None else 0)
        put(f"{group}/attrib/demo_mode_write_protect", 0)
        if chap:
            put(f"{group}/auth/userid", chap[0])
            put(f"{group}/auth/password", chap[1])
        for initiator in initiators or ():
            os.makedirs(f"{group}/acls/{initiator}")
            for number in range(len(stores)):
                os.makedirs(f"{group}/acls/{initiator}/lun_{number}")
                os.symlink(f"{group}/lun/lun_{number}", f"{group}/acls/{initiator}/lun_{number}/lun")
        for key, value in parameters.items():
            put(f"{group}/param/{key}", f"{value}\n")  # its last character is thrown away
        point = f"{group}/np/{portal or self.portal}"
        os.makedirs(point)
        if iser:
            put(f"{point}/iser", 1)
        put(f"{group}/enable", 1)
        return group

    @staticmethod
    def group(name):
        return f"{ROOT}/iscsi/{IQN}:{name}/tpgt_1"

    def remove(self, name):
        group = self.group(name)
        put(f"{group}/enable", 0)
        for link in glob.glob(f"{group}/acls/*/lun_*/lun"):
            os.unlink(link)
        for folder in (*glob.glob(f"{group}/acls/*/lun_*"), *glob.glob(f"{group}/acls/*"), *glob.glob(f"{group}/np/*")):
            if os.path.isdir(folder):
                os.rmdir(folder)
        for link in glob.glob(f"{group}/lun/lun_*/store"):
            os.unlink(link)
        for folder in (*glob.glob(f"{group}/lun/lun_*"), group, os.path.dirname(group)):
            os.rmdir(folder)

    def sessions(self, name):
        """Names of the initiators logged in by no access list, one for each session."""
        return sorted(line for line in get(f"{self.group(name)}/dynamic_sessions").replace("\0", "\n").splitlines() if line)

    def logged_out(self, name):
        """A logout ends the session in the kernel a little later."""
        wait_for(lambda: not self.sessions(name), 20, f"end of the sessions of {name}")


def head(device, size=MIB, offset=0):
    check_run("blockdev", "--flushbufs", device)
    with open(device, "rb") as f:
        f.seek(offset)
        return f.read(size)


def refused(place, target, code, *named, **more):
    done = run(place, place.campaign(campaign(target, more.pop("step", "workload: {size: 8MiB}, measure: {warmup: 0s, window: 1s}"), chap=more.pop("chap", ""), **more)))
    error = done.result()["error"]
    assert done.code == 3 and error["code"] == code, (code, done)
    for text in named:
        assert text in error["place"] + error["message"], (text, error)
    assert error["next"], error
    print(f"        {code} after {done.seconds:.1f} s: {error['message']}", flush=True)
    return done
