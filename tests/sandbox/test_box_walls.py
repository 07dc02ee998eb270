"""What a boxed command must not reach: each wall is tried from inside, in every tier and for every user."""

import os
import platform
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.missing import lacks

LIBC = "import ctypes, os, errno; libc = ctypes.CDLL(None, use_errno=True)\n"


@pytest.mark.parametrize("family", ["tcp", "udp"])
def test_nothing_outside_can_be_dialled(box, family):
    kind, outside = (socket.SOCK_STREAM, socket.SOCK_DGRAM)[family == "udp"], socket.socket()
    outside.bind(("127.0.0.1", 0))
    outside.listen()
    port = outside.getsockname()[1]
    script = f"""
import socket
for host, port in (("127.0.0.1", {port}), ("192.0.2.1", 53), ("169.254.169.254", 80)):
    try:
        made = socket.socket(socket.AF_INET, {int(kind)})
        made.settimeout(2)
        made.connect((host, port))
        made.send(b"x")
        made.recv(1)
        print("REACHED", host)
    except OSError as error:
        print("refused", host, error.errno)
"""
    seen = box.python(script)
    outside.close()
    assert "REACHED" not in seen
    assert seen.count("refused") == 3


def test_only_internet_sockets_can_be_made_and_pairs_must_be_streams(box):
    script = """
import socket
for name in ("AF_UNIX", "AF_VSOCK", "AF_NETLINK", "AF_PACKET", "AF_ALG", "AF_BLUETOOTH"):
    try:
        socket.socket(getattr(socket, name), socket.SOCK_STREAM if name == "AF_UNIX" else socket.SOCK_RAW)
        print("MADE", name)
    except OSError as error:
        print("refused", name, error.errno)
try:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    print("MADE pair")
except PermissionError:
    print("refused pair")
a, b = socket.socketpair()
a.send(b"stream pair ok")
print(b.recv(20).decode())
"""
    seen = box.python(script)
    assert "MADE" not in seen
    assert "stream pair ok" in seen


def test_a_socket_file_in_the_workspace_cannot_be_talked_to(box):
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(box.workspace)
    listener.bind("agent.sock")
    os.chdir(here)
    os.chmod(box.workspace / "agent.sock", 0o777)
    listener.listen()
    seen = box.python("import socket; s = socket.socket(socket.AF_UNIX); s.connect('agent.sock'); print('REACHED')")
    listener.close()
    assert "REACHED" not in seen
    assert "PermissionError" in seen


def test_the_system_and_everything_outside_the_workspace_is_read_only_or_absent(box):
    outside = box.ground / "outside"
    outside.write_text("untouched")
    outside.chmod(0o666)
    places = ("/usr/x", "/etc/x", "/x", "/bin/x", "/dev/x", "/proc/x", "/var/x", str(box.ground / "y"), str(outside))
    seen = box.text("; ".join(f"echo bad > {place}" for place in places))
    assert seen.count("cannot create") == len(places)
    assert outside.read_text() == "untouched"
    assert not (box.ground / "y").exists()


def test_a_read_only_workspace_takes_no_write(box):
    (box.workspace / "file").write_text("kept")
    assert box.run("echo x > file", workspace_writable=False).exit_code != 0
    assert box.run("rm -f file; touch other", workspace_writable=False).exit_code != 0
    assert (box.workspace / "file").read_text() == "kept"


def test_kernel_settings_cannot_be_written(box):
    before = Path("/proc/sys/kernel/core_pattern").read_bytes()
    seen = box.run("cat /proc/sys/kernel/core_pattern > /tmp/v; cat /tmp/v > /proc/sys/kernel/core_pattern")
    assert seen.exit_code != 0
    assert b"Read-only file system" in seen.stderr
    assert Path("/proc/sys/kernel/core_pattern").read_bytes() == before


def test_home_directories_of_this_machine_are_not_there(box):
    hers = box.ground / "home"
    (hers / ".ssh").mkdir(parents=True)
    (hers / ".ssh" / "id").write_text("PRIVATE")
    box.own(hers)
    box.hide = (str(hers),)
    seen = box.text(f"cat {hers}/.ssh/id; ls -d /root /home /srv /boot /opt /sys /run; ls -A {box.ground}")
    assert "PRIVATE" not in seen
    assert not set(seen.split()) & {"/root", "/home", "/srv", "/boot", "/opt", "/sys", "/run", "home"}


def test_hidden_paths_of_the_machine_stay_hidden_inside_the_workspace(box):
    home = box.workspace / ".coilclaw"
    (home / "keys").mkdir(parents=True)
    (home / "keys" / "ledger").write_text("SECRET KEY")
    box.own()
    box.hide = (str(home),)
    seen = box.text("cat .coilclaw/keys/ledger; ls -A .coilclaw; grep -r SECRET . ; mv .coilclaw x; cp -r .coilclaw c")
    assert "SECRET" not in seen
    assert (home / "keys" / "ledger").read_text() == "SECRET KEY"


@pytest.mark.skipif(not os.path.isdir("/usr/share/doc"), reason="nothing to hide below /usr")
def test_hidden_paths_of_the_machine_stay_hidden_below_the_system(box):
    box.hide = ("/usr/share/doc",)
    assert box.text("ls -A /usr/share/doc") == ""


def test_other_processes_of_the_machine_cannot_be_seen(box):
    pids = [int(pid) for pid in box.text("cd /proc; ls -d [0-9]*").split()]
    assert 1 <= len(pids) <= 4
    assert max(pids) < 30
    assert box.run(f"kill -0 {os.getpid()}").exit_code != 0 or os.getpid() < 30


def test_the_environment_is_empty_but_for_what_is_granted(box):
    names = {line.partition("=")[0] for line in box.text("env", environment=(("GRANTED", "yes"),)).splitlines()}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "HOME", "LANG", "GIT_OPTIONAL_LOCKS", "GRANTED"}


def test_granted_values_do_not_stand_in_the_process_list(box):
    token = "granted-value-7c1f"
    seen = box.run("cat /proc/1/cmdline; cat /proc/1/environ", environment=(("TOKEN", token),))
    assert token.encode() not in seen.stdout


def test_loader_variables_act_inside_only(box):
    (box.workspace / "evil.so").write_bytes(b"not a library")
    seen = box.run("echo ran", environment=(("LD_PRELOAD", str(box.workspace / "evil.so")),))
    assert seen.stdout == b"ran\n"


def test_no_descriptor_but_the_three_streams_is_inherited(box):
    script = "import os; print(sorted(int(name) for name in os.listdir('/proc/self/fd'))[:-1])"
    assert box.python(script).strip() == "[0, 1, 2]"
    assert box.python(script, workspace_noexec=True, stdin=b"x").strip() == "[0, 1, 2]"


def test_capabilities_and_privileges_are_gone(box):
    seen = box.text("grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp|Uid):' /proc/self/status")
    values = dict(line.split(":") for line in seen.replace("\t", " ").splitlines())
    assert {values[f"Cap{kind}"].strip() for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0000000000000000"}
    assert (values["NoNewPrivs"].strip(), values["Seccomp"].strip()) == ("1", "2")
    assert values["Uid"].split() == ["1000"] * 4


def test_root_lends_its_workspace_to_an_unprivileged_uid(box):
    assert box.text("stat -c %u:%g .; stat -c %u /usr").split() == ["1000:1000", "65534"]


REACHING = (
    "libc.unshare(0x10000000)",
    "libc.unshare(0x00020000)",
    "libc.syscall(56 if os.uname().machine == 'x86_64' else 220, 0x10000000 | 17, 0, 0, 0, 0)",
    "libc.setns(0, 0)",
    "libc.ptrace(16, 1, 0, 0)",
    "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
    "libc.umount2(b'/proc/sys', 2)",
    "libc.chroot(b'/tmp')",
    "libc.syscall(428, -100, b'/', 1)",
    "libc.syscall(442, -100, b'/', 0, 0, 0)",
    "libc.syscall(425, 1, 0)",
    "libc.syscall(438, 0, 0, 0)",
    "libc.memfd_create(b'x', 0)",
    "libc.syscall(447, 0)",
    "libc.personality(0x0040000)",
    "libc.mknod(b'/tmp/null', 0o020666, 0x103)",
    "libc.syscall(321 if os.uname().machine == 'x86_64' else 280, 0, 0, 0)",
    "libc.syscall(323 if os.uname().machine == 'x86_64' else 282, 0)",
    "libc.syscall(250 if os.uname().machine == 'x86_64' else 219, 0, 0)",
    "libc.syscall(304 if os.uname().machine == 'x86_64' else 265, 0, 0, 0)",
    "libc.syscall(298 if os.uname().machine == 'x86_64' else 241, 0, 0, 0, 0, 0)",
    "libc.execveat(3, b'', 0, 0, 0x1000)",
    "libc.chmod(b'.', 0o6755)",
)


def test_calls_that_reach_around_the_walls_are_refused(box):
    lines = [f"r = {call}; print(r, errno.errorcode.get(ctypes.get_errno()), {call!r})" for call in REACHING]
    seen = box.python(LIBC + "\n".join(lines))
    assert seen.splitlines() == [f"-1 EPERM {call}" for call in REACHING]


def test_calls_newer_than_the_filter_and_those_it_cannot_read_do_not_exist(box):
    script = "for n in (435, 437, 500): print(libc.syscall(n, 0, 0), errno.errorcode.get(ctypes.get_errno()))"
    assert box.python(LIBC + script).splitlines() == ["-1 ENOSYS"] * 3


@pytest.mark.skipif(platform.machine() != "x86_64", reason="i386 calls exist on x86_64 alone")
def test_calls_of_a_foreign_architecture_kill_the_process(box):
    i386 = LIBC + (
        "import mmap; code = mmap.mmap(-1, 4096, prot=7); code.write(bytes.fromhex('b814000000cd80c3'))\n"
        "print('RETURNED', ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())"
    )
    x32 = LIBC + "print('RETURNED', libc.syscall(0x40000000 + 39))"
    for script in (i386, x32):
        result = box.run(("/usr/bin/python3", "-I", "-c", script))
        assert b"RETURNED" not in result.stdout
        assert (result.end, result.exit_code) == ("signalled", 128 + 31)


def test_keys_cannot_be_typed_into_a_terminal(box):
    script = """
import fcntl, os, termios
leader, follower = os.openpty()
for number in (termios.TIOCSTI, 0x541C):
    try:
        fcntl.ioctl(follower, number, b"x")
        print("TYPED")
    except PermissionError:
        print("refused")
"""
    assert box.python(script).split() == ["refused", "refused"]


def test_the_first_process_of_the_box_has_nothing_the_command_lacks(box):
    seen = box.text(
        "grep -E '^(CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/1/status; ls -l /proc/1/fd; cat /proc/1/environ"
    )
    assert seen.count("0000000000000000") == 2
    assert "NoNewPrivs:\t1" in seen
    assert "Seccomp:\t2" in seen
    assert "memfd" not in seen
    assert str(box.ground) not in seen


def test_set_id_files_cannot_be_made(box):
    script = """
import os
def tried(act):
    try:
        act()
        print("MADE")
    except PermissionError:
        print("refused")
open("plain", "w").close()
tried(lambda: os.chmod("plain", 0o4755))
tried(lambda: os.chmod("plain", 0o2755))
tried(lambda: os.open("direct", os.O_CREAT | os.O_WRONLY, 0o4755))
tried(lambda: os.mknod("node", 0o104755))
tried(lambda: os.fchmod(os.open("plain", os.O_RDONLY), 0o6755))
tried(lambda: os.open(".", os.O_TMPFILE | os.O_RDWR, 0o4755))
os.chmod("plain", 0o1755)
"""
    assert box.python(script).split() == ["refused"] * 6
    assert all(not path.stat().st_mode & 0o6000 for path in box.workspace.rglob("*"))


def test_user_namespaces_cannot_be_nested(box):
    if not shutil.which("unshare"):
        lacks("unshare", "Install the package util-linux.")
    result = box.run("unshare -Ur id -u")
    assert result.exit_code != 0
    assert result.stdout == b""


def test_threads_and_children_still_work_under_the_filter(box):
    script = """
import concurrent.futures, subprocess, threading
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(lambda n: n, range(100))))
print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout.strip())
"""
    assert box.python(script).split() == ["4950", "child"]


def test_nothing_of_ours_is_left_behind_by_a_run(box):
    before = threading.active_count()
    box.run("true")
    assert threading.active_count() == before
    own = f"/proc/{box.process.pid}"
    first = len(os.listdir(f"{own}/task")), len(os.listdir(f"{own}/fd"))
    for _ in range(5):
        box.run("true")
    for _ in range(2000):  # a joined thread may still be leaving the kernel
        if len(os.listdir(f"{own}/task")) <= first[0] and len(os.listdir(f"{own}/fd")) <= first[1]:
            return
        time.sleep(0.02)
    pytest.fail("a thread or a descriptor was left behind")
