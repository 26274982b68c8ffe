"""Another initiator than muster: a session of libiscsi's own library, for names, ISIDs and reservations at will."""
import ctypes

RESERVE, REGISTER, RELEASE = 0x01, 0x00, 0x02  # SPC-4 6.14.2
WRITE_EXCLUSIVE, EXCLUSIVE_ACCESS = 0x1, 0x3  # SPC-4 6.13.3.4


class Key(ctypes.Structure):
    _fields_ = [("key", ctypes.c_uint64), ("action_key", ctypes.c_uint64), ("spec_i_pt", ctypes.c_uint8),
                ("all_tg_pt", ctypes.c_uint8), ("aptpl", ctypes.c_uint8)]


class Task(ctypes.Structure):  # its first field; libiscsi 1.19
    _fields_ = [("status", ctypes.c_int)]


def library():
    lib = ctypes.CDLL("libiscsi.so.7")
    lib.iscsi_create_context.restype = ctypes.c_void_p
    lib.iscsi_get_error.restype = ctypes.c_char_p
    lib.iscsi_persistent_reserve_out_sync.restype = ctypes.POINTER(Task)
    return lib


def isid_seed(name):
    """As agent/backend/iscsi/session.cc makes it of an initiator's name."""
    value = 2166136261
    for byte in name.encode():
        value = ((value ^ byte) * 16777619) & 0xffffffff
    return (value ^ value >> 24) & 0xffffff


class Initiator:
    """Logged in from `with` to its end. qualifier: the last two bytes of the ISID."""

    def __init__(self, portal, target, name, lun=0, qualifier=0):
        self.lib, self.portal, self.target, self.name, self.lun, self.qualifier = library(), portal, target, name, lun, qualifier

    def __enter__(self):
        context = ctypes.c_void_p(self.lib.iscsi_create_context(self.name.encode()))
        self.context = context
        self.lib.iscsi_set_targetname(context, self.target.encode())
        self.lib.iscsi_set_session_type(context, 2)  # normal
        self.lib.iscsi_set_header_digest(context, 0)  # none
        self.lib.iscsi_set_noautoreconnect(context, 1)
        self.lib.iscsi_set_isid_random(context, isid_seed(self.name), self.qualifier)
        code = self.lib.iscsi_full_connect_sync(context, self.portal.encode(), self.lun)
        assert code == 0, self.lib.iscsi_get_error(context)
        return self

    def __exit__(self, *ignored):
        self.lib.iscsi_logout_sync(self.context)
        self.lib.iscsi_destroy_context(self.context)

    def reserve(self, action, kind, key=0, action_key=0):
        task = self.lib.iscsi_persistent_reserve_out_sync(self.context, self.lun, action, 0, kind,
                                                          ctypes.byref(Key(key, action_key)))
        assert task, self.lib.iscsi_get_error(self.context)
        text = self.lib.iscsi_get_error(self.context)
        assert self.lib.scsi_task_get_status(task, None) == 0, text
        self.lib.scsi_free_scsi_task(task)
