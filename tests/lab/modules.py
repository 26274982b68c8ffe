"""Names kernel modules with all they depend on, in the order to load them: modules.py MODULES_DIR early|all."""
import os
import sys

EARLY = "crc32c_generic virtio_pci virtio_blk virtio_rng ext4 overlay 9p 9pnet_virtio"
CASES = ("iscsi_target_mod target_core_mod target_core_iblock target_core_file ib_isert rdma_rxe rdma_cm rdma_ucm ib_uverbs "
         "veth dummy brd loop null_blk scsi_debug sd_mod sg dm_mod raid1 md_mod xfs configfs crc32c_generic "
         "crct10dif_generic libcrc32c af_packet")
WHOLE = "crypto lib drivers/target drivers/infiniband/sw drivers/infiniband/core"


def name_of(path):
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


def main():
    base, what = sys.argv[1:]
    files, needs = {}, {}
    with open(os.path.join(base, "modules.dep")) as f:
        for line in f:
            file, deps = line.strip().split(":")
            files[name_of(file)] = file
            needs[name_of(file)] = [name_of(d) for d in deps.split()]
    try:
        with open(os.path.join(base, "modules.softdep")) as f:
            for line in f:
                words = line.split()
                if words and words[0] == "softdep":
                    soft = [w.replace("-", "_") for w in words[2:] if not w.endswith(":")]
                    needs.setdefault(words[1].replace("-", "_"), []).extend(soft)
    except FileNotFoundError:
        pass
    done = []

    def add(name, path=()):
        name = name.replace("-", "_")
        if name not in files or name in done or name in path:  # built in, or a circle of soft dependencies
            return
        for other in reversed(needs[name]):
            add(other, (*path, name))
        done.append(name)

    for name in EARLY.split():
        add(name)
    if what == "all":
        for name in CASES.split():
            add(name)
        folders = tuple(f"kernel/{folder}/" for folder in WHOLE.split())
        for name, file in files.items():
            if file.startswith(folders):
                add(name)
    for name in done:
        print(files[name])


main()
