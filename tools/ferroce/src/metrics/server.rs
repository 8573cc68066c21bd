//! The metrics over HTTP, at `/metrics` as Prometheus asks for them.

use std::net::SocketAddr;
use std::process::ExitCode;

use tiny_http::{Header, Method, Request, Response, Server};

use crate::error::Error;

/// What OpenMetrics 1.0 says of its text.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers until it is ended. What goes wrong for one who asks is told to him, with status 503.
pub(super) fn serve(
    address: SocketAddr,
    metrics: impl Fn() -> Result<String, Error>,
) -> Result<ExitCode, Error> {
    let listening = |error: Box<dyn std::error::Error + Send + Sync>| {
        Error::io(format!("listening at {address}"))(std::io::Error::other(error))
    };
    let server = Server::http(address).map_err(listening)?;
    // With the port that the system has chosen, if it was to choose.
    println!("http://{}/metrics", server.server_addr());

    loop {
        let request = server
            .recv()
            .map_err(Error::io("waiting for a request over HTTP"))?;
        // Who has gone away meanwhile misses his answer, and nobody else does.
        let _ = answer(request, &metrics);
    }
}

fn answer(
    request: Request,
    metrics: &impl Fn() -> Result<String, Error>,
) -> Result<(), std::io::Error> {
    let path = request.url().split('?').next().unwrap_or_default();
    if path != "/metrics" {
        let there = "the metrics are at /metrics\n";
        return request.respond(Response::from_string(there).with_status_code(404));
    }
    if !matches!(request.method(), Method::Get | Method::Head) {
        let how = "GET and HEAD are answered\n";
        return request.respond(Response::from_string(how).with_status_code(405));
    }

    match metrics() {
        Ok(text) => {
            let kind = Header::from_bytes("Content-Type", TEXT).expect("a header of letters");
            request.respond(Response::from_string(text).with_header(kind))
        }
        Err(error) => {
            let why = format!("{error}\n");
            request.respond(Response::from_string(why).with_status_code(503))
        }
    }
}
