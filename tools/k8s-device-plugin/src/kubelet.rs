//! The kubelet's directory: our socket and its own in it. The kubelet empties the directory and
//! makes its socket anew whenever it starts, and then knows no plugin: each has to come again.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use inotify::{EventMask, EventStream, Inotify, WatchMask};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Request;
use tonic::transport::{Endpoint, Server};

use crate::api::device_plugin_server::DevicePluginServer;
use crate::api::registration_client::RegistrationClient;
use crate::api::{DevicePluginOptions, RegisterRequest, VERSION};
use crate::plugin::{Offer, Plugin};

/// The kubelet's socket.
const KUBELET: &str = "kubelet.sock";
/// Ours.
const OWN: &str = "ferroce-rdma.sock";
/// How long the kubelet may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long until the next attempt where the kubelet does not take us, and after how many that is
/// worth a word: its socket is there before it listens.
const PAUSE: Duration = Duration::from_millis(500);
const WORTH_A_WORD: u32 = 4;
/// Room for some events with their names.
const EVENTS: usize = 4096;

/// What ends the plugin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KubeletError {
    /// There is no kubelet, or not there.
    #[error(
        "{}: {source}: is this a node of Kubernetes, and the kubelet's directory mounted here? \
         --kubelet-dir names another",
        .path.display()
    )]
    Directory {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The socket cannot be made or served.
    #[error("{}: {source}", .path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server has ended.
    #[error("serving the kubelet: {0}")]
    Server(#[from] tonic::transport::Error),
}

/// The directory, and what happens in it.
pub(crate) struct Kubelet {
    directory: PathBuf,
    resource: String,
    events: EventStream<[u8; EVENTS]>,
}

impl Kubelet {
    /// Looks at the directory from now on.
    pub(crate) fn watch(directory: &Path, resource: &str) -> Result<Self, KubeletError> {
        let failed = |source| KubeletError::Directory {
            path: directory.to_path_buf(),
            source,
        };
        let inotify = Inotify::init().map_err(failed)?;
        let what = WatchMask::CREATE | WatchMask::MOVED_TO | WatchMask::DELETE | WatchMask::ONLYDIR;
        inotify.watches().add(directory, what).map_err(failed)?;
        let events = inotify.into_event_stream([0; EVENTS]).map_err(failed)?;
        Ok(Self {
            directory: directory.to_path_buf(),
            resource: resource.to_owned(),
            events,
        })
    }

    /// Serves and registers, again and again as the kubelet comes and goes.
    pub(crate) async fn attend(&mut self, offer: Arc<Offer>) -> Result<(), KubeletError> {
        loop {
            self.attend_once(offer.clone()).await?;
        }
    }

    /// Until the kubelet has started anew.
    async fn attend_once(&mut self, offer: Arc<Offer>) -> Result<(), KubeletError> {
        let own = self.directory.join(OWN);
        let failed = |source| KubeletError::Socket {
            path: own.clone(),
            source,
        };
        remove(&own).map_err(failed)?;
        let listener = UnixListener::bind(&own).map_err(failed)?;
        let (end, over) = watch::channel(false);
        let mut ended = over.clone();
        let serving = Server::builder().serve_with_incoming_shutdown(
            DevicePluginServer::new(Plugin::new(offer, over)),
            UnixListenerStream::new(listener),
            async move {
                let _ = ended.wait_for(|&over| over).await;
            },
        );
        tokio::pin!(serving);

        // The kubelet calls back before it answers, so both at once.
        let (directory, resource) = (self.directory.clone(), self.resource.clone());
        let registering = async move {
            register(&directory, &resource).await;
            pending::<()>().await;
        };
        tokio::select! {
            served = &mut serving => served?,
            () = registering => {}
            renewed = renewed(&mut self.events, &own) => renewed.map_err(failed)?,
        }

        // Streams to a kubelet that has gone end, and with them its connections.
        end.send_replace(true);
        let _ = tokio::time::timeout(PATIENCE, &mut serving).await;
        Ok(())
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        let _ = remove(&self.directory.join(OWN));
    }
}

fn remove(socket: &Path) -> io::Result<()> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Until the kubelet has made its socket, or taken ours away.
async fn renewed(events: &mut EventStream<[u8; EVENTS]>, own: &Path) -> io::Result<()> {
    while let Some(event) = events.next().await {
        let event = event?;
        let made = event
            .mask
            .intersects(EventMask::CREATE | EventMask::MOVED_TO);
        let kubelet = made && event.name.as_deref().is_some_and(|name| name == KUBELET);

        // Many events at once are one; and what was removed may have been the socket before ours.
        if kubelet || event.mask.contains(EventMask::Q_OVERFLOW) || !own.exists() {
            tracing::info!("the kubelet has started anew");
            return Ok(());
        }
    }
    Err(io::Error::other(
        "there are no more events of the kubelet's directory",
    ))
}

/// Registers, as soon as there is a kubelet that takes us.
async fn register(directory: &Path, resource: &str) {
    let mut told = String::new();
    for attempt in 1_u32.. {
        match register_once(directory, resource).await {
            Ok(()) => {
                tracing::info!(resource, "registered with the kubelet");
                return;
            }
            // Where there is none yet, its socket's coming is told.
            Err(_) if !directory.join(KUBELET).exists() => {
                tracing::info!("there is no kubelet yet");
                return;
            }
            Err(error) => {
                let words = error.to_string();
                if attempt >= WORTH_A_WORD && words != told {
                    tracing::warn!("the kubelet does not take the plugin: {words}");
                    told = words;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn register_once(
    directory: &Path,
    resource: &str,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let socket = directory.join(KUBELET);
    let channel = Endpoint::try_from(format!("unix://{}", socket.display()))?
        .timeout(PATIENCE)
        .connect_timeout(PATIENCE)
        .connect()
        .await?;
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint: OWN.to_owned(),
        resource_name: resource.to_owned(),
        options: Some(DevicePluginOptions::default()),
    };
    RegistrationClient::new(channel)
        .register(Request::new(request))
        .await?;
    Ok(())
}
