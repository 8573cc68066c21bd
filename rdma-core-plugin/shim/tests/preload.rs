//! The shim as it is used: preloaded into C programs that look at paths and descriptors of RDMA,
//! with an image made by hand.

#[path = "preload/lab.rs"]
mod lab;

use ferroce_cabi::ibv_context;
use lab::{Lab, shim};
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

#[test]
fn every_way_to_a_path_leads_into_the_image() {
    Lab::new().c(r#"
        struct stat st;
        struct statx sx;
        char text[PATH_MAX];
        struct dirent **list, *entry;
        volatile int flags = O_RDONLY; /* so that fortified variants are called */
        expect(open(IBDEV, flags), "ferroce0\n");
        expect(open64(IBDEV, flags), "ferroce0\n");
        expect(openat(AT_FDCWD, IBDEV, flags), "ferroce0\n");
        int dir = open("/sys/class/infiniband_verbs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(dir >= 0);
        int sub = openat(dir, "uverbs0", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(sub >= 0);
        expect(openat(sub, "ibdev", flags), "ferroce0\n");
        CHECK(fstatat(sub, IBDEV, &st, 0) == 0 && S_ISREG(st.st_mode));
        CHECK(stat(IBDEV, &st) == 0 && st.st_size == 9);
        CHECK(lstat("/dev/infiniband/uverbs0", &st) == 0 && S_ISLNK(st.st_mode));
        CHECK(stat("/dev/infiniband/uverbs0", &st) == 0 && st.st_rdev == makedev(1, 3));
        CHECK(statx(AT_FDCWD, IBDEV, 0, STATX_SIZE, &sx) == 0 && sx.stx_size == 9);
        CHECK(access(IBDEV, R_OK) == 0);
        CHECK(faccessat(AT_FDCWD, IBDEV, R_OK, 0) == 0);
        CHECK(access("/sys/class/infiniband/none", R_OK) == -1 && errno == ENOENT);
        volatile size_t room = sizeof text;
        CHECK(readlink("/dev/infiniband/uverbs0", text, room) == 9 && memcmp(text, "/dev/null", 9) == 0);
        CHECK(realpath(IBDEV, text) && strstr(text, "/sys/class/infiniband_verbs/uverbs0/ibdev") > text);
        FILE *file = fopen(IBDEV, "r");
        CHECK(file && fgets(text, sizeof text, file) && strcmp(text, "ferroce0\n") == 0);
        fclose(file);
        CHECK(scandir("/sys/class/infiniband", &list, NULL, alphasort) == 3);
        CHECK(strcmp(list[2]->d_name, "ferroce0") == 0);
        DIR *stream = opendir("/dev/infiniband");
        CHECK(stream);
        int found = 0;
        while ((entry = readdir(stream)))
            found |= strcmp(entry->d_name, "uverbs0") == 0;
        CHECK(found && closedir(stream) == 0);
        CHECK(chdir("/sys/class/infiniband") == 0 && access("ferroce0", F_OK) == 0);
    "#);
}

#[test]
fn a_command_makes_a_completion_channel_on_device_descriptors_only() {
    Lab::new().c(r#"
        int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
        CHECK(fd >= 0);
        uint32_t channel = -1;
        struct { uint32_t command; uint16_t in, out; uint64_t response; } cmd = { 17, 4, 1, (uintptr_t)&channel };
        for (int copy = 0; copy < 4; copy++) {
            int use = copy == 0 ? fd : copy == 1 ? dup(fd) : copy == 2 ? fcntl(fd, F_DUPFD_CLOEXEC, 100) : dup2(fd, 77);
            CHECK(write(use, &cmd, sizeof cmd) == sizeof cmd);
            uint64_t sent = 5, got = 0;
            CHECK(write(channel, &sent, 8) == 8 && read(channel, &got, 8) == 8 && got == 5);
            CHECK(close(channel) == 0);
            if (use != fd) CHECK(close(use) == 0);
        }
        cmd.command = 1;
        CHECK(write(fd, &cmd, sizeof cmd) == -1 && errno == EOPNOTSUPP);
        CHECK(close(fd) == 0);
        /* The same number on another file is a plain descriptor again. */
        cmd.command = 17;
        channel = -1;
        CHECK(open("/dev/null", O_RDWR) == fd);
        CHECK(write(fd, &cmd, sizeof cmd) == sizeof cmd && channel == (uint32_t)-1);
        CHECK(write(77, &cmd, sizeof cmd) == -1 && errno == EBADF);
    "#);
}

#[test]
fn a_descriptor_that_changed_behind_our_back_is_left_alone() {
    Lab::new().c(r#"
        int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
        uint32_t channel = -1;
        struct { uint32_t command; uint16_t in, out; uint64_t response; } cmd = { 17, 4, 1, (uintptr_t)&channel };
        CHECK(fd >= 0 && syscall(SYS_close, fd) == 0);
        CHECK(syscall(SYS_memfd_create, "other", 0) == fd);
        CHECK(write(fd, &cmd, sizeof cmd) == sizeof cmd && channel == (uint32_t)-1);
        CHECK(lseek(fd, 0, SEEK_CUR) == sizeof cmd);
    "#);
}

#[test]
fn gids_are_read_from_the_image() {
    Lab::new().c(r#"
        struct attr { uint16_t id, len, flags, data16; uint64_t data; };
        struct hdr { uint16_t length, object, method, count; uint64_t r1; uint32_t driver, r2; struct attr attrs[4]; };
        struct entry { uint8_t gid[16]; uint32_t index, port, type, ifindex; } entry, table[2];
        uint64_t n = 0;
        int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
        struct hdr one = { sizeof one, 0, 6, 4, 0, 0, 0, { { 0, 8, 1, 0, 1 }, { 1, 8, 1, 0, 0 }, { 2, 4, 1, 0, 0 },
            { 3, sizeof entry, 1, 0, (uintptr_t)&entry } } };
        CHECK(ioctl(fd, 0xc0181b01, &one) == 0);
        CHECK(entry.index == 0 && entry.port == 1 && entry.type == 2 && entry.ifindex != 0 && entry.gid[15] == 1);
        CHECK(one.attrs[3].flags & 2);
        one.attrs[1].data = 1;
        CHECK(ioctl(fd, 0xc0181b01, &one) == -1 && errno == ENODATA);
        one.attrs[1].data = 2;
        CHECK(ioctl(fd, 0xc0181b01, &one) == -1 && errno == EINVAL);
        one.attrs[1].data = 0;
        one.attrs[0].data = 2;
        CHECK(ioctl(fd, 0xc0181b01, &one) == -1 && errno == EINVAL);
        struct hdr all = { sizeof all, 0, 5, 4, 0, 0, 0, { { 0, 8, 1, 0, sizeof entry }, { 1, 4, 1, 0, 0 },
            { 2, sizeof table, 1, 0, (uintptr_t)table }, { 3, 8, 1, 0, (uintptr_t)&n } } };
        CHECK(ioctl(fd, 0xc0181b01, &all) == 0 && n == 1 && memcmp(&table[0], &entry, sizeof entry) == 0);
        all.attrs[2].len = 0;
        CHECK(ioctl(fd, 0xc0181b01, &all) == -1 && errno == EINVAL);
        all.method = 3;
        CHECK(ioctl(fd, 0xc0181b01, &all) == -1 && errno == EPROTONOSUPPORT);
    "#);
}

/// With somebody at the other end who sends back what comes, but for what the shim says of the
/// socket.
#[test]
fn netlink_of_rdma_looks_like_netlink() {
    let lab = Lab::new();
    lab.c(r#"
        struct sockaddr_un un = { .sun_family = AF_UNIX };
        snprintf(un.sun_path, sizeof un.sun_path, "%s/netlink.sock", getenv("FERROCE_RUNTIME_DIR"));
        int door = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        CHECK(bind(door, (void *)&un, sizeof un) == 0 && listen(door, 4) == 0);
        int child = fork();
        if (child == 0) {
            char bytes[256];
            ssize_t got;
            int peer = accept(door, NULL, NULL);
            while ((got = recv(peer, bytes, sizeof bytes, 0)) > 0)
                if (bytes[4] != 0x0f)
                    send(peer, bytes, got, 0);
            _exit(0);
        }
        close(door);

        CHECK(socket(AF_NETLINK, SOCK_STREAM, 20) == -1 && errno == ESOCKTNOSUPPORT);
        int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 20);
        CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
        int value = 0;
        socklen_t len = sizeof value;
        CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len) == 0 && value == AF_NETLINK && len == 4);
        CHECK(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &len) == 0 && value == 20);
        CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len) == 0 && value == SOCK_RAW);
        value = 1;
        CHECK(setsockopt(fd, 270, 11, &value, sizeof value) == 0);
        CHECK(getsockopt(fd, 270, 11, &value, &len) == 0 && value == 1);
        CHECK(getsockopt(fd, 270, 10, &value, &len) == 0 && value == 0);
        CHECK(setsockopt(fd, 270, 99, &len, sizeof len) == -1 && errno == ENOPROTOOPT);
        CHECK(setsockopt(fd, 270, 11, &value, 1) == -1 && errno == EINVAL);
        value = 4;
        CHECK(setsockopt(fd, 270, 1, &value, sizeof value) == 0);
        value = 33;
        CHECK(setsockopt(fd, 270, 1, &value, sizeof value) == -1 && errno == EINVAL);
        value = 65536;
        CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof value) == 0);

        struct sockaddr_nl nl = { .nl_family = AF_NETLINK }, own, peer;
        len = sizeof own;
        CHECK(getsockname(fd, (void *)&own, &len) == 0 && len == sizeof own && own.nl_pid == 0);
        CHECK(bind(fd, (void *)&un, sizeof un) == -1 && errno == EINVAL);
        CHECK(bind(fd, (void *)&nl, 4) == -1 && errno == EINVAL);
        CHECK(bind(fd, (void *)&nl, sizeof nl) == 0);
        CHECK(getsockname(fd, (void *)&own, &len) == 0 && len == sizeof own && own.nl_family == AF_NETLINK);
        CHECK(own.nl_pid == (unsigned)getpid() && own.nl_groups == 0);
        CHECK(bind(fd, (void *)&own, sizeof own) == 0);
        own.nl_pid++;
        CHECK(bind(fd, (void *)&own, sizeof own) == -1 && errno == EINVAL);
        // That the process's number is taken is no error of the next one's.
        int other = socket(AF_NETLINK, SOCK_RAW, 20);
        errno = 0;
        CHECK(other >= 0 && bind(other, (void *)&nl, sizeof nl) == 0 && errno == 0);
        CHECK(getsockname(other, (void *)&own, &len) == 0 && own.nl_pid > 0xffff0000);
        CHECK(close(other) == 0);

        char big[64] = { 0 }, small[16];
        CHECK(sendto(fd, big, sizeof big, 0, (void *)&nl, sizeof nl) == sizeof big);
        struct pollfd readable = { fd, POLLIN, 0 };
        CHECK(poll(&readable, 1, 10000) == 1);
        memset(&peer, 0xff, sizeof peer);
        struct iovec part = { small, sizeof small };
        struct msghdr message = { .msg_name = &peer, .msg_namelen = sizeof peer, .msg_iov = &part, .msg_iovlen = 1 };
        CHECK(recvmsg(fd, &message, MSG_PEEK | MSG_TRUNC) == sizeof big && message.msg_flags & MSG_TRUNC);
        CHECK(message.msg_namelen == sizeof peer && peer.nl_family == AF_NETLINK && peer.nl_pid == 0);
        CHECK(recvmsg(fd, &message, MSG_PEEK) == sizeof small);
        memset(&peer, 0xff, sizeof peer);
        len = 2;
        CHECK(recvfrom(fd, big, sizeof big, 0, (void *)&peer, &len) == sizeof big);
        CHECK(len == sizeof peer && peer.nl_family == AF_NETLINK && peer.nl_pid == 0xffffffff);
        message.msg_namelen = sizeof peer;
        CHECK(recvmsg(fd, &message, MSG_DONTWAIT) == -1 && errno == EAGAIN);

        // Nobody there any more.
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        CHECK(recvmsg(fd, &message, 0) == -1 && errno == ECONNRESET);
        CHECK(close(fd) == 0 && socket(AF_NETLINK, SOCK_RAW, 20) == -1 && errno == EPROTONOSUPPORT);
        // The number is another's.
        CHECK(dup2(0, fd) == fd && getsockname(fd, (void *)&own, &len) == -1 && errno == ENOTSOCK);
    "#);
}

#[test]
fn without_a_daemon_netlink_of_rdma_is_refused_and_other_sockets_are_not() {
    let lab = Lab::new();
    lab.c(r#"
        CHECK(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 20) == -1 && errno == EPROTONOSUPPORT);
        CHECK(close(socket(AF_NETLINK, SOCK_RAW, 0)) == 0);
        CHECK(close(socket(AF_UNIX, SOCK_STREAM, 0)) == 0);
    "#);
}

#[test]
fn the_address_of_a_port_is_not_one_of_loopback_once_libfabric_is_there() {
    let lab = Lab::new();
    let library = lab.library("libfabric.so.1", "", "");
    let body = r#"
        struct ifaddrs *list, *i;
        for (int there = 0; there < 2; there++) {
            int ports = 0, others = 0;
            CHECK(!there || dlopen("LIBRARY", RTLD_NOW));
            CHECK(getifaddrs(&list) == 0);
            for (i = list; i; i = i->ifa_next) {
                if (strcmp(i->ifa_name, "lo") || !i->ifa_addr)
                    continue;
                struct sockaddr_in *v4 = (struct sockaddr_in *)i->ifa_addr;
                int port = v4->sin_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
                port ? ports++ : others++;
                CHECK(!(i->ifa_flags & IFF_LOOPBACK) == (port && there));
                CHECK(i->ifa_flags & IFF_UP);
            }
            CHECK(ports == 1 && others >= 1);
            freeifaddrs(list);
        }
    "#;

    lab.c(&body.replace("LIBRARY", &library.display().to_string()));
}

/// perftest 25.01 asks libmlx5 about every device, and takes its refusal of one that is not its own
/// for the end.
#[test]
fn libmlx5_is_not_asked_about_a_device_of_ours() {
    let lab = Lab::new();
    let mlx5 = lab.library(
        "libmlx5.so.1",
        "int mlx5dv_query_device(void *context, void *attributes) { return 95; }\n",
        "MLX5_1.0 { global: mlx5dv_*; local: *; };\n",
    );

    let body = r#"
        extern int mlx5dv_query_device(void *context, void *attributes);
        struct { uint8_t version; uint64_t flags, comp_mask, beyond; } asked, had = { 9, ~0ul, ~0ul, ~0ul };
        static union { char bytes[SIZE]; uint64_t aligned; } context;
        int *fd = (int *)(context.bytes + CMD_FD);

        asked = had;
        *fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
        CHECK(*fd >= 0 && mlx5dv_query_device(&context, &asked) == 0);
        CHECK(asked.version == 0 && asked.flags == 0 && asked.comp_mask == 0 && asked.beyond == had.beyond);

        asked = had;
        *fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        CHECK(mlx5dv_query_device(&context, &asked) == 95 && asked.comp_mask == had.comp_mask);
        *fd = -1;
        CHECK(mlx5dv_query_device(&context, &asked) == 95 && asked.comp_mask == had.comp_mask);
    "#;

    let body = body
        .replace("SIZE", &size_of::<ibv_context>().to_string())
        .replace("CMD_FD", &offset_of!(ibv_context, cmd_fd).to_string());
    lab.linked(&body, &[&mlx5]);
}

#[test]
fn without_a_runtime_directory_nothing_changes() {
    let out = Command::new("sh")
        .args([
            "-c",
            "ls /sys/class/infiniband_ferroce_test 2>&1; echo fine > /dev/null && echo done",
        ])
        .env("LD_PRELOAD", shim())
        .env_remove("FERROCE_RUNTIME_DIR")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.contains("/sys/class/infiniband_ferroce_test") && text.ends_with("done\n"),
        "{text}"
    );
}

#[test]
fn programs_that_know_nothing_of_rdma_run_as_before() {
    let lab = Lab::new();
    let script = "cd / && ls -l /dev >/dev/null && seq 1000 | sort -rn | head -1 && \
                  cat /sys/class/infiniband_verbs/uverbs0/ibdev && (exec 3>/dev/null; echo x >&3) && echo done";
    let out = lab
        .command(Path::new("/bin/sh"))
        .args(["-c", script])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "1000\nferroce0\ndone\n"
    );
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
}

/// Loaded late, the shim is called by the libraries that it stands in for, however these were
/// linked, and by no other; one that comes later has its turn when devices are listed.
#[test]
fn loaded_late_it_stands_in_for_libraries_of_rdma_alone() {
    let lab = Lab::new();
    let opens = |name: &str, soname: &str, options: &[&str]| {
        let text = format!(
            "#include <dirent.h>\n#include <fcntl.h>\n\
             int {name}(const char *path) {{ return open(path, O_RDONLY); }}\n\
             DIR *{name}_list(const char *path) {{ return opendir(path); }}\n"
        );
        lab.library_with(soname, &text, "", options)
    };
    let locked = opens("locked", "libibverbs.so.1", &["-Wl,-z,relro,-z,now"]);
    let lazy = opens("lazy", "librdmacm-12ab.so.1", &["-Wl,-z,lazy,-z,norelro"]);
    let plain = opens("no_plt", "libibumad.so.3", &["-fno-plt"]);
    let other = opens("other", "libother.so.1", &[]);
    let later = opens("later", "libibverbs-later.so", &[]);

    let body = r#"
        extern int locked(const char *), lazy(const char *), no_plt(const char *), other(const char *);
        extern DIR *locked_list(const char *);
        struct { uint32_t seen, tables, slots, refused; const char *why; } done = { 0 };
        CHECK(lazy(IBDEV) == -1);
        void *shim = dlopen(getenv("SHIM"), RTLD_NOW | RTLD_LOCAL);
        CHECK(shim);
        int (*stand_in)(const char *, void *) = (int (*)(const char *, void *))dlsym(shim, "ferroce_shim_stand_in");
        CHECK(stand_in && locked(IBDEV) == -1);
        CHECK(stand_in(getenv("LAB"), &done) == 0);
        CHECK(done.tables == 3 && done.slots == 6 && done.refused == 0 && !done.why);
        expect(locked(IBDEV), "ferroce0\n");
        expect(lazy(IBDEV), "ferroce0\n");
        expect(no_plt(IBDEV), "ferroce0\n");
        CHECK(other(IBDEV) == -1 && open(IBDEV, O_RDONLY) == -1);

        void *later = dlopen("LATER", RTLD_NOW);
        CHECK(later);
        int (*opens)(const char *) = (int (*)(const char *))dlsym(later, "later");
        CHECK(opens && opens(IBDEV) == -1);
        CHECK(locked_list("/sys/class/infiniband"));
        expect(opens(IBDEV), "ferroce0\n");
        CHECK(stand_in(getenv("LAB"), &done) == 0 && done.tables == 4 + 3 && done.slots == 6);
    "#;

    let body = body.replace("LATER", &later.display().to_string());
    lab.without(&body, &[&locked, &lazy, &plain, &other]);
}
