//! What the kubelet asks: which devices there are, and what a container needs that gets some.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status};

use crate::allocation;
use crate::api::device_plugin_server::DevicePlugin;
use crate::api::{self, Device, Empty, HEALTHY, ListAndWatchResponse, UNHEALTHY};

/// What is the same as long as the plugin runs.
#[derive(Debug)]
pub(crate) struct Offer {
    /// The command `ferroce`.
    pub(crate) ferroce: PathBuf,
    /// The runtime directory of the daemon.
    pub(crate) runtime: PathBuf,
    /// How many containers can have the device.
    pub(crate) devices: u32,
    /// Whether the container runtime has the specification.
    pub(crate) cdi: bool,
    /// Whether there is a device.
    pub(crate) health: watch::Receiver<bool>,
}

/// The service, for one registration.
#[derive(Debug)]
pub(crate) struct Plugin {
    offer: Arc<Offer>,
    /// Becomes true, or its sender goes, when the socket is given up.
    over: watch::Receiver<bool>,
}

impl Plugin {
    pub(crate) fn new(offer: Arc<Offer>, over: watch::Receiver<bool>) -> Self {
        Self { offer, over }
    }
}

impl Offer {
    fn ids(&self) -> impl Iterator<Item = String> {
        (0..self.devices).map(|number| format!("rdma-{number}"))
    }

    fn list(&self, healthy: bool) -> ListAndWatchResponse {
        let health = if healthy { HEALTHY } else { UNHEALTHY };
        let devices = self.ids().map(|id| Device {
            id,
            health: health.to_owned(),
        });
        ListAndWatchResponse {
            devices: devices.collect(),
        }
    }

    /// Fails unless each is a device of ours.
    fn check(&self, ids: &[String]) -> Result<(), Status> {
        match ids.iter().find(|id| !self.ids().any(|own| own == **id)) {
            Some(id) => Err(Status::not_found(format!("there is no device {id:?}"))),
            None => Ok(()),
        }
    }
}

type Lists = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    type ListAndWatchStream = Lists;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<api::DevicePluginOptions>, Status> {
        Ok(Response::new(api::DevicePluginOptions::default()))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Lists>, Status> {
        let offer = self.offer.clone();
        let mut over = self.over.clone();
        let lists = WatchStream::new(offer.health.clone())
            .map(move |healthy| Ok(offer.list(healthy)))
            .take_until(async move {
                let _ = over.wait_for(|&over| over).await;
            });
        Ok(Response::new(lists.boxed()))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<api::PreferredAllocationRequest>,
    ) -> Result<Response<api::PreferredAllocationResponse>, Status> {
        let responses = request.into_inner().container_requests.into_iter();
        Ok(Response::new(api::PreferredAllocationResponse {
            container_responses: responses.map(preferred).collect(),
        }))
    }

    async fn allocate(
        &self,
        request: Request<api::AllocateRequest>,
    ) -> Result<Response<api::AllocateResponse>, Status> {
        let requests = request.into_inner().container_requests;
        for request in &requests {
            self.offer.check(&request.device_ids)?;
        }
        if !*self.offer.health.borrow() {
            let runtime = self.offer.runtime.display();
            return Err(Status::unavailable(format!(
                "no ferroced is running with runtime directory {runtime}"
            )));
        }

        let Offer {
            ferroce,
            runtime,
            cdi,
            ..
        } = &*self.offer;
        let answer = allocation::ask(ferroce, runtime, *cdi)
            .await
            .map_err(|error| {
                tracing::error!("no device for a pod: {error}");
                Status::internal(error.to_string())
            })?;
        Ok(Response::new(api::AllocateResponse {
            container_responses: vec![answer; requests.len()],
        }))
    }

    async fn pre_start_container(
        &self,
        _: Request<api::PreStartContainerRequest>,
    ) -> Result<Response<api::PreStartContainerResponse>, Status> {
        Ok(Response::new(api::PreStartContainerResponse {}))
    }
}

/// One is as good as another.
fn preferred(
    request: api::ContainerPreferredAllocationRequest,
) -> api::ContainerPreferredAllocationResponse {
    let wanted = usize::try_from(request.allocation_size).unwrap_or(0);
    let mut device_ids = request.must_include_device_ids;
    for id in request.available_device_ids {
        if device_ids.len() < wanted && !device_ids.contains(&id) {
            device_ids.push(id);
        }
    }
    api::ContainerPreferredAllocationResponse { device_ids }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_there_is_preferred() {
        let request = |must: &[&str], size| api::ContainerPreferredAllocationRequest {
            available_device_ids: ["a", "b", "c"].map(str::to_owned).to_vec(),
            must_include_device_ids: must.iter().map(|id| (*id).to_owned()).collect(),
            allocation_size: size,
        };
        assert_eq!(preferred(request(&["c"], 2)).device_ids, ["c", "a"]);
        assert_eq!(preferred(request(&[], 1)).device_ids, ["a"]);
        assert!(preferred(request(&[], -1)).device_ids.is_empty());
    }
}
