//! A node of Kubernetes, as far as the plugin sees it: an installation of ferroce, the directory
//! where kubelet and plugins meet, and the kubelet.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use ferroce_cabi::pabi;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use crate::api::device_plugin_client::DevicePluginClient;
use crate::api::registration_server::{Registration, RegistrationServer};
use crate::api::{ContainerAllocateResponse, Empty, RegisterRequest};

/// The node. Each has an address of its own: tests run side by side.
pub(crate) struct Node {
    temp: tempfile::TempDir,
    pub(crate) addr: String,
}

impl Node {
    /// `None` if command and daemon have not been built.
    pub(crate) fn new() -> Option<Self> {
        let plugin = Path::new(env!("CARGO_BIN_EXE_ferroce-k8s-device-plugin"));
        let programs = ["ferroce", "ferroced"].map(|name| plugin.with_file_name(name));
        if let Some(missing) = programs.iter().find(|program| !program.is_file()) {
            eprintln!("skipped: {} has not been built", missing.display());
            return None;
        }

        let temp = tempfile::tempdir().unwrap();
        let (bin, lib) = (temp.path().join("bin"), temp.path().join("lib/ferroce"));
        for directory in [&bin, &lib, &temp.path().join("kubelet")] {
            fs::create_dir_all(directory).unwrap();
        }

        // By another process: a file that this one has open for writing cannot be run.
        let mut copy = Command::new("cp");
        copy.arg(plugin).args(&programs).arg(&bin);
        assert!(copy.status().unwrap().success());

        // Stand-ins: nothing loads them here.
        fs::write(lib.join("libferroce-shim.so"), "").unwrap();
        for number in pabi::numbers() {
            fs::write(lib.join(pabi::driver_file("libferroce", number)), "").unwrap();
        }
        for link in ["lib", "lib64"] {
            symlink(".", lib.join(link)).unwrap();
        }

        static NEXT: AtomicU8 = AtomicU8::new(1);
        let addr = format!("127.0.8.{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Some(Self { temp, addr })
    }

    pub(crate) fn kubelet_dir(&self) -> PathBuf {
        self.temp.path().join("kubelet")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.temp.path().join("bin").join(program));
        command
            .env("FERROCE_RUNTIME_DIR", self.temp.path().join("run"))
            .env("XDG_CONFIG_HOME", self.temp.path())
            .stdin(Stdio::null());
        command
    }

    /// `ferroce` with these arguments, which succeeds; what it prints.
    pub(crate) fn ferroce(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.command("ferroce").args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// The plugin, as users start it.
    pub(crate) fn plugin(&self, options: &[&str]) -> Command {
        let mut command = self.command("ferroce");
        command.arg("k8s-device-plugin").arg("--kubelet-dir");
        command.arg(self.kubelet_dir()).args(options);
        command
    }

    /// What the kubelet does as it starts.
    pub(crate) fn empty_kubelet_dir(&self) {
        for entry in fs::read_dir(self.kubelet_dir()).unwrap() {
            // The plugin may have taken its own away in this moment.
            let _ = fs::remove_file(entry.unwrap().path());
        }
    }

    /// What the kubelet has of a plugin.
    pub(crate) async fn client(&self, endpoint: &str) -> DevicePluginClient<Channel> {
        let socket = self.kubelet_dir().join(endpoint);
        let endpoint = Endpoint::try_from(format!("unix://{}", socket.display())).unwrap();
        DevicePluginClient::new(endpoint.connect().await.unwrap())
    }

    /// Kills the daemon, which has no time to say anything.
    pub(crate) fn kill_daemon(&self) {
        let status: Value = serde_json::from_slice(&self.ferroce(&["status", "--json"])).unwrap();
        let pid = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }

    /// Compares with `ferroce cdi generate`.
    pub(crate) fn assert_as_cdi_says(&self, container: &ContainerAllocateResponse) {
        let said: Value = serde_json::from_slice(&self.ferroce(&["cdi", "generate"])).unwrap();
        let edits = &said["devices"][0]["containerEdits"];
        let mut variables: Vec<_> = container
            .envs
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let lines = edits["env"].as_array().unwrap().iter();
        let mut expected: Vec<_> = lines.map(|line| line.as_str().unwrap()).collect();
        variables.sort();
        expected.sort_unstable();
        assert_eq!(variables, expected);

        let mounts = edits["mounts"].as_array().unwrap();
        assert_eq!((container.mounts.len(), mounts.len()), (2, 2));
        for (mount, expected) in container.mounts.iter().zip(mounts) {
            assert_eq!(mount.host_path, *expected["hostPath"].as_str().unwrap());
            assert_eq!(
                mount.container_path,
                *expected["containerPath"].as_str().unwrap()
            );
            assert!(mount.read_only && Path::new(&mount.host_path).exists());
        }
    }
}

/// The plugin's process.
pub(crate) struct Plugin(Child);

impl Plugin {
    pub(crate) fn start(node: &Node, options: &[&str]) -> Self {
        Self(node.plugin(options).spawn().unwrap())
    }

    /// Ends it as the node does.
    pub(crate) fn terminate(mut self) {
        let pid = Pid::from_child(&self.0);
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The kubelet, until it is dropped.
pub(crate) struct Kubelet {
    serving: JoinHandle<()>,
    registrations: mpsc::UnboundedReceiver<RegisterRequest>,
}

impl Kubelet {
    pub(crate) fn start(node: &Node) -> Self {
        let listener = UnixListener::bind(node.kubelet_dir().join("kubelet.sock")).unwrap();
        let (sender, registrations) = mpsc::unbounded_channel();
        let serving = tokio::spawn(async move {
            let service = RegistrationServer::new(Registrar(sender));
            let incoming = UnixListenerStream::new(listener);
            Server::builder()
                .serve_with_incoming(service, incoming)
                .await
                .unwrap();
        });
        Self {
            serving,
            registrations,
        }
    }

    /// The next plugin that comes.
    pub(crate) async fn registered(&mut self) -> RegisterRequest {
        self.registrations.recv().await.unwrap()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Registrar(mpsc::UnboundedSender<RegisterRequest>);

#[tonic::async_trait]
impl Registration for Registrar {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        self.0.send(request.into_inner()).unwrap();
        Ok(Response::new(Empty {}))
    }
}
